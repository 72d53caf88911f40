"""`python -m workers up`: the workers of this host."""

import sys

from workers.up import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
