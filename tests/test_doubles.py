"""The book where nothing is wider than a double, as on ARM processors: each chapter's checks hold
there. (In a browser, tests/browser/test_run.py asks.)"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Chapters whose code asks for more than doubles, directly or by what they import.
QUICK = ['00c_builders']
THOROUGH = """00_plrv 00a_losses 00ab_densities 00ac_levels 00ad_mixtures 00ag_laplace
    00aga_descents 00ah_quotients
    00b_mechanisms 01_closed 01_contour 01_grids 01_mixed 01_rare 01_rows 01a_certified
    02_saddlepoint 02a_tilting 03_edgeworth 04ab_lattices 04d_noise 05_filters 05a_batch
    05ac_prefixes 06_accounting 06bb_merged_steps 06cc_certificates""".split()
RUN = """
import sys
from pathlib import Path
import numpy as np
from dp_saddle import numerics
numerics.EXTENDED = np.float64  # before anything else imports it
from nbdev.test import test_nb
ok, _ = test_nb(Path(sys.argv[1]), skip_flags=['slow', 'thorough'])
from dp_saddle import grids, losses
assert losses.EXTENDED is grids.EXTENDED is np.float64
sys.exit(not ok)
"""


@pytest.mark.parametrize(
    'chapter', [*QUICK, *[pytest.param(name, marks=pytest.mark.slow) for name in THOROUGH]]
)
def test_a_chapter_in_doubles(chapter):
    done = subprocess.run(
        [sys.executable, '-c', RUN, str(ROOT / 'nbs' / f'{chapter}.ipynb')],
        cwd=ROOT,
        env=os.environ | {'MPLBACKEND': 'agg'},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
