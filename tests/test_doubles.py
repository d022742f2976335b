"""The book where nothing is wider than a double, as on ARM processors: each chapter's checks hold
there. (In a browser, tests/browser/test_run.py asks.)"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Chapters whose code asks for more than doubles, directly or by what they import.
QUICK = ['losses/windows']
THOROUGH = """01_plrv steps/builders plrv/gaussian_release plrv/sums losses/nodes losses/densities
    engine/largest_loss_levels losses/mixtures
    losses/laplace losses/steepest_descent losses/long_lines
    mechanisms/finite_pairs mechanisms/accountants 02_mechanisms
    losses/gaussian engine/line engine/transform_grids engine/stacked_kinds
    engine/small_losses engine/gaussian_rows engine/ways 04_saddlepoint
    saddlepoint/tilts saddlepoint/tilted_clt saddlepoint/moments 05_tilting
    06_edgeworth prv_fft/lattices
    steps/own_noise 08_filters engine/many engine/prefixes
    accounting/best_answers 10_accounting
    practice/merged_steps certificates/files""".split()
RUN = """
import sys
from pathlib import Path
import numpy as np
from dp_saddle.base import numerics
numerics.EXTENDED = np.float64  # before anything else imports it
from nbdev.test import test_nb
ok, _ = test_nb(Path(sys.argv[1]), skip_flags=['slow', 'thorough'])
from dp_saddle.engine import transform_grids
from dp_saddle.losses import nodes
assert nodes.EXTENDED is transform_grids.EXTENDED is np.float64
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
