"""The commands of ``dragoman``, one file each, named as the command is typed."""
