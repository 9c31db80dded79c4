"""``python -m dragoman``: the command."""

from dragoman.command import main

if __name__ == "__main__":
    main()
