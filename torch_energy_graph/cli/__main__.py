"""``python -m torch_energy_graph.cli``."""

import sys

from torch_energy_graph.cli import main

sys.exit(main())
