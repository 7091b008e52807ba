"""As Pyomo, which takes a second."""

import time

time.sleep(0.3)
