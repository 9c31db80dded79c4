"""A clock that can be set back and forth while the processes that have it run."""

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

_LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static const volatile int64_t *ahead;
__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("TRIAL_CLOCK"), O_RDONLY | O_CLOEXEC);
    if (file < 0) abort();
    ahead = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec; now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""
"""Source of a library that, preloaded, gives a process another time of day; libfaketime would break Python's sleep."""


class Clock:
    """The time of day of some processes, which read their offset from a file that they have mapped."""

    def __init__(self, folder: Path, name: str = "clock", ahead: int = 0) -> None:
        library, self._file = folder / f"{name}.so", folder / f"{name}.offset"
        compiler = ["gcc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-", "-ldl"]
        subprocess.run(compiler, input=_LIBRARY.encode(), check=True)
        self._file.write_bytes(struct.pack("q", ahead))
        self._file.chmod(0o644)
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(library), "TRIAL_CLOCK": str(self._file)}

    @property
    def ahead(self) -> int:
        return int(struct.unpack("q", self._file.read_bytes())[0])

    def set(self, ahead: int) -> None:
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", ahead))
