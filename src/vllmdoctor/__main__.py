"""python -m vllmdoctor."""

import sys

from vllmdoctor.cli import main

if __name__ == "__main__":
    sys.exit(main())
