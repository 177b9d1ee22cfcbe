"""`python -m sidecar` is `cursor-sidecar`."""

from sidecar.cli import main

if __name__ == "__main__":
    main()
