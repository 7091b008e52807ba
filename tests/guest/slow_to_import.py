"""As Pyomo, which takes a second."""

import time

from tests.guest.slowness import IMPORT_S

time.sleep(IMPORT_S)
