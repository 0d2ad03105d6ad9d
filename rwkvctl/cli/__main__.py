"""`python -m rwkvctl.cli`: the command line in the Python that runs this, whatever PATH says."""

import sys

from rwkvctl.cli.main import main

sys.exit(main())
