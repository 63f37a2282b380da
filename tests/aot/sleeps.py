"""A module whose import takes longer than any time limit: what a compiler that hangs looks like to its parent."""

import time

time.sleep(120)
