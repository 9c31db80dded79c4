"""zstd as in Python's own ``compression.zstd``, which its backport brings to Pythons before 3.14."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError, compress, decompress
else:
    from backports.zstd import ZstdDecompressor, ZstdError, compress, decompress

__all__ = ["ZstdDecompressor", "ZstdError", "compress", "decompress"]
