"""`python -m hpsde` is the command `hpsde`."""

import sys

from hpsde.cli import main

sys.exit(main())
