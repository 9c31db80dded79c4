"""The commands, one file each, named as it is typed: options in, one call, words out."""
