"""Power loss: a disk has what was synced, and any part of the rest.

A library that is preloaded into the command tells this process of each change of a folder before it happens. A sync
makes this process note what the disk has from then on; at a change that was drawn the command is killed, and the folder
gets a state that a disk may have. File systems promise more than is assumed here: that they write in some order, and
that they sync a new file's name with the file.
"""

import os
import random
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, NamedTuple

from indexer.collection.settings import Settings
from indexer.indexing.reading import CHUNK_DOCUMENTS
from query.cli import INTERRUPTED
from trials import home_life, patient
from trials.command import fell
from trials.documents import contents, different, sentences, write_records
from trials.home_life import Commands, Step

_LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int told(const char *kind, const char *path) {
    const char *folder = getenv("POWER_LOSS_FOLDER"), *listener = getenv("POWER_LOSS_SOCKET");
    if (!folder || strncmp(path, folder, strlen(folder))) return 0;
    int before = errno, got = 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX}; char message[PATH_MAX + 16];
    strncpy(address.sun_path, listener, sizeof address.sun_path - 1);
    int length = snprintf(message, sizeof message, "%s %s", kind, path);
    int link = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int sent = !connect(link, (struct sockaddr *)&address, sizeof address) && send(link, message, length, 0) == length;
    while (sent && (got = recv(link, message, 1, 0)) < 0 && errno == EINTR);
    if (got != 1) raise(SIGKILL);
    close(link);
    errno = before;
    return 1;
}

static int told_of_file(const char *kind, int file) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return told(kind, path);
}

static void told_of_name(const char *kind, int folder, const char *path) {
    if (*path == '/') told(kind, path); else if (folder != AT_FDCWD) told_of_file(kind, folder);
}

static const struct sockaddr *peer(int file) {
    static __thread struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getpeername(file, (struct sockaddr *)&address, &size)) address.ss_family = AF_UNSPEC;
    return (struct sockaddr *)&address;
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define SYNC(name) int name(int file) { REAL(name); return told_of_file("sync", file) ? 0 : real(file); }
SYNC(fsync)
SYNC(fdatasync)
#define CHANGE(kind, type, name, parameters, arguments) \\
    type name parameters { REAL(name); told_of_file(kind, file); return real arguments; }
CHANGE("write", ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
CHANGE("write", ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
CHANGE("write", ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
CHANGE("cut", int, ftruncate, (int file, off_t size), (file, size))
CHANGE("cut", int, ftruncate64, (int file, off64_t size), (file, size))
#define NAMES(kind, name, at, path, parameters, arguments) \\
    int name parameters { REAL(name); told_of_name(kind, at, path); return real arguments; }
NAMES("rename", rename, AT_FDCWD, from, (const char *from, const char *to), (from, to))
NAMES("rename", renameat2, folder, from, (int folder, const char *from, int other, const char *to, unsigned flags),
    (folder, from, other, to, flags))
NAMES("unlink", unlink, AT_FDCWD, path, (const char *path), (path))
NAMES("unlink", unlinkat, folder, path, (int folder, const char *path, int flags), (folder, path, flags))
NAMES("rmdir", rmdir, AT_FDCWD, path, (const char *path), (path))
NAMES("mkdir", mkdir, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
#define REQUEST(kind, type, name, address, parameters, arguments) \\
    type name parameters { REAL(name); if ((address)->sa_family == AF_INET) told(kind, getenv("POWER_LOSS_FOLDER")); \\
        return real arguments; }
REQUEST("connect", int, connect, to, (int file, const struct sockaddr *to, socklen_t size), (file, to, size))
REQUEST("send", ssize_t, send, peer(file), (int file, const void *data, size_t size, int flags),
    (file, data, size, flags))
"""
"""Source of a library that, preloaded, tells a socket of each change in a folder and each request, and waits."""
_PAGE = 4096
_WITHIN = 300.0  # seconds in which a command must change something, or end
_Listing = dict[str, int]


class Disk:
    """The state of a folder on a disk, by what was synced.

    Files and folders are told apart by their inodes. Each one that the disk has is kept open, for the number of an
    inode that is gone would be given again.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        """All that is in the folder is on the disk."""
        self._folder, self._chance = folder, chance
        self._open: dict[int, int] = {}
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, _Listing] = {}
        for path in (folder, *folder.rglob("*")):
            self.sync(path)

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)

    def sync(self, path: Path) -> None:
        """The disk has the present content of a file, or the present names of a folder."""
        with suppress(FileNotFoundError):  # synced after its removal
            if path.is_dir():
                self._folders[self._keep(path)] = self._listing(path)
            else:
                self._files[self._keep(path)] = path.read_bytes()

    def _keep(self, path: Path) -> int:
        inode = path.stat().st_ino
        if inode not in self._open:
            self._open[inode] = os.open(path, os.O_RDONLY)
        return inode

    def _listing(self, folder: Path) -> _Listing:
        return {entry.name: self._keep(entry) for entry in folder.iterdir()}

    def lose_power(self) -> None:
        """Put the folder to a state that the disk may have."""
        paths = [path for path in (self._folder, *self._folder.rglob("*")) if path.is_dir()]
        listings = self._draw_listings({self._keep(path): self._listing(path) for path in paths})
        new = self._folder.with_name(f"{self._folder.name}.new")
        self._write(self._folder.stat().st_ino, new, listings)
        shutil.rmtree(self._folder)
        new.rename(self._folder)

    def _draw_listings(self, present: Mapping[int, _Listing]) -> dict[int, _Listing]:
        """Draw each folder's names; the two changes of a rename, which name the same inode, are drawn together."""
        is_new, drawn = self._draw_choice(), dict[int, bool]()
        listings = {folder: dict(self._folders.get(folder, {})) for folder in sorted({*present, *self._folders})}
        changes = []  # each name that the disk and the present folder have for other inodes
        groups: list[set[int]] = []
        for folder, before in listings.items():
            after = present.get(folder, {})
            for name in sorted({*before, *after}):
                if before.get(name) != after.get(name):
                    inodes = {listing[name] for listing in (before, after) if name in listing}
                    changes.append((folder, name, inodes))
                    joined = [group for group in groups if group & inodes]
                    groups = [group for group in groups if not group & inodes] + [set().union(inodes, *joined)]
        for group in groups:
            drawn |= dict.fromkeys(group, is_new())
        for folder, name, inodes in changes:
            if drawn[min(inodes)]:
                listings[folder].pop(name, None)
                if name in present.get(folder, {}):
                    listings[folder][name] = present[folder][name]
        return listings

    def _draw_choice(self) -> Callable[[], bool]:
        """Nothing that was not synced is there, or all of it, or any part."""
        kind = self._chance.choice(("nothing", "all", "any", "any"))
        return (lambda: self._chance.random() < 0.5) if kind == "any" else lambda: kind == "all"

    def _write(self, folder: int, target: Path, listings: Mapping[int, _Listing]) -> None:
        target.mkdir(mode=0o700)
        for name, inode in listings.get(folder, {}).items():
            status = os.fstat(self._open[inode])
            if stat.S_ISDIR(status.st_mode):
                self._write(inode, target / name, listings)
            else:
                (target / name).write_bytes(self._draw_content(inode, status.st_size))
                (target / name).chmod(status.st_mode & 0o777)

    def _draw_content(self, inode: int, size: int) -> bytes:
        before, after = self._files.get(inode, b""), os.pread(self._open[inode], size, 0)
        is_new = self._draw_choice()
        length = len(after) if is_new() else len(before)
        pages = ((after if is_new() else before)[at : at + _PAGE].ljust(_PAGE, b"\0") for at in range(0, length, _PAGE))
        return b"".join(pages)[:length]


class Outcome(NamedTuple):
    """What became of a command: its exit status, None if the power was lost before; and the kinds of its changes."""

    status: int | None
    kinds: list[str]  # "write", "cut", "sync", "rename", "unlink", "mkdir" or "rmdir", in the order of time


class Machine(Commands):
    """Runs commands on a folder, and loses its power."""

    def __init__(self, scratch: Path, folder: Path, prelude: str = "") -> None:
        library, listener = scratch / "power.so", scratch / "socket"
        compiler = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-o", str(library), "-", "-ldl"]
        subprocess.run(compiler, input=_LIBRARY.encode(), check=True)
        self.folder = folder
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(listener))
        self._listener.listen(64)
        told = {"POWER_LOSS_FOLDER": str(folder), "POWER_LOSS_SOCKET": str(listener)}
        super().__init__(scratch / "log", {"LD_PRELOAD": str(library), **told}, prelude)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._listener.close()

    def run_until(
        self, command: Sequence[str], disk: Disk | None = None, lost_at: int | None = None, *, by: int = signal.SIGKILL
    ) -> Outcome:
        """Run a command until its end, or until the change of this number, at which it gets a signal."""
        child, kinds, killed = self.start(command), list[str](), False
        with DefaultSelector() as selector:
            for source in (self._listener, self.output):
                selector.register(source, EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(patient(_WITHIN))]
                if not ready:
                    os.kill(child, signal.SIGKILL)
                    raise TimeoutError(f"{command[0]} changed nothing for {_WITHIN:.0f} s and did not end")
                if self._listener not in ready:
                    status = self.status()
                    return Outcome(None if killed else status, kinds)
                with self._listener.accept()[0] as link:
                    kind, _, path = link.recv(8192).decode().partition(" ")
                    if len(kinds) == lost_at and not killed:
                        killed = by == signal.SIGKILL
                        os.kill(child, by)
                    if not killed:
                        kinds.append(kind)
                        if kind == "sync" and disk:
                            disk.sync(Path(path))
                        link.send(b".")


class Life:
    """The life of a home, command by command; any of them is killed, or the power is lost."""

    def __init__(self, scratch: Path, machine: Machine, chance: random.Random) -> None:
        self.machine, self._chance, self._scratch = machine, chance, scratch
        machine.folder.mkdir()
        self.steps = self.make_steps()
        self._kinds: list[list[str]] = []
        self._states: list[tuple[dict[str, Any], dict[str, Any]]] = []  # before each step, and after it
        for number, step in enumerate(self.steps):
            self.keep(number)
            before, outcome = self.state(), machine.run_until(step.command)
            if outcome.status:
                raise RuntimeError(f"{step.name} failed: {machine.said()}")
            self._kinds.append([*outcome.kinds, "end"])
            self._states.append((before, self.state()))

    def make_steps(self) -> list[Step]:
        return home_life.steps(self.machine.folder, self._scratch, self.machine)

    def state(self) -> dict[str, Any]:
        return home_life.state(self.machine.folder)

    def keep(self, number: int) -> None:
        shutil.copytree(self.machine.folder, self._scratch / f"before-{number}")

    def begin(self, number: int) -> None:
        shutil.rmtree(self.machine.folder)
        shutil.copytree(self._scratch / f"before-{number}", self.machine.folder)

    def attempt(self, number: int, *, power: bool = False) -> str:
        """Kill a command at a change of any kind, or lose the ``power`` there or after it; returns what fell."""
        self.begin(number)
        step, kinds, (before, after) = self.steps[number], self._kinds[number], self._states[number]
        drawn = self._chance.choice(sorted({*kinds} if power else {*kinds} - {"end"}))
        lost_at = self._chance.choice([at for at, kind in enumerate(kinds) if kind == drawn])
        with ExitStack() as stack:
            disk = stack.enter_context(closing(Disk(self.machine.folder, self._chance))) if power else None
            outcome = self.machine.run_until(step.command, disk, lost_at)
            if disk:
                disk.lose_power()
        what = f"{step.name}, {'power lost' if power else 'killed'} at change {lost_at} of {len(kinds)}, {drawn}"
        try:
            home_life.check_models(self.machine.folder)
            status, again = outcome.status, step.goes_on and step.name != "rebuild"  # others would be done once more
            state = {} if status is None and again else self.state()
            if status is None and (again or (state != after if step.goes_on else state == before)):
                status = self.machine.run_until(step.command).status
                state = self.state()
        except Exception as error:  # noqa: BLE001 - it is what fell
            return f"{what}: {error!r}"
        keys, lost = different(after, state), len(after.keys() - state.keys())
        held = not keys and (not status or step.name.startswith(("delete", "detach")))  # what is gone is not found
        return fell(what, f"status {status}, {len(keys)} differ, {lost} lost", keys[:3], self.machine.said(), held=held)


def losses(folder: Path, tries: int, *, seed: int = 0, power: bool = True, live: Any = Life) -> Iterator[str]:
    """Kill each command of a life in turn at changes drawn at random, and lose the power; yields what fell in each try.

    Without ``power``, the disk keeps what the killed command wrote.
    """
    (scratch := folder / "scratch").mkdir()
    with Machine(scratch, folder / "disk") as machine:
        life = live(scratch, machine, random.Random(seed))
        for number in range(tries):
            yield life.attempt(number % len(life.steps), power=power)


def kills_while_indexing(folder: Path, *, seed: int) -> Iterator[str]:
    """Index 20 chunks of real sentences, with ids that come twice, ended by SIGKILL and Ctrl-C; then compare.

    A try is a run that is ended, or the comparison with an undisturbed run.
    """
    texts = [str(record["text"]) for record in sentences(20 * CHUNK_DOCUMENTS)]
    lines = [{"id": f"d{number % 1200}", "lang": "en", "text": text} for number, text in enumerate(texts)]
    source, homes = write_records(lines, folder / "sentences.jsonl"), folder / "homes"
    options = ["-c", "c", "--device", "cpu", "-q", "--no-calibration", "--on-duplicate", "last", "--home"]
    index = ["index", source, *options]
    whole, disturbed = (Settings.read(home=homes / name) for name in ("whole", "disturbed"))
    draw = random.Random(seed)
    with Machine(folder, homes) as machine:
        undisturbed = machine.run_until([*index, str(whole.home)])
        status: int | None = None
        while status != 0:
            lost_at, by = draw.randrange(len(undisturbed.kinds) // 4), draw.choice((signal.SIGKILL, signal.SIGINT))
            status = machine.run_until([*index, str(disturbed.home)], lost_at=lost_at, by=by).status
            yield fell(status, machine.said(), held=status in {0, None, INTERRUPTED})
    expected, actual = contents(whole, "c"), contents(disturbed, "c")
    wrong = different(expected, actual)
    held = not wrong and len(expected) == 1200 and expected["d0"][0] == texts[1200]
    yield fell(f"{len(wrong)} of {len(expected)} documents differ", wrong[:3], held=held)
