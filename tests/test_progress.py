"""Who waits is told: lines on a terminal, nothing in a pipe, nothing where the answer is quick."""
import os
import subprocess
import sys
import textwrap
import time
import types
import warnings
from threading import Thread

import pytest

from dp_saddle import (
    ContourAccountant,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
    TiltedFFT,
    calibrate,
    certify,
    epsilon_after,
    exponential_epsilon,
    gdp,
    show_progress,
    tradeoff,
    verify,
)
from dp_saddle.base.progress import Task, counted, in_threads, still_here

SAMPLED = PoissonSubsampled(base=Gaussian(sigma=2.), rate=.01)
RARE = PoissonSubsampled(base=Gaussian(sigma=2.), rate=1e-6)

@pytest.fixture
def lines():
    "What is told, from the first moment on."
    told = []
    show_progress(told.append, after=0.)
    yield told
    show_progress()

@pytest.mark.parametrize('ask, words', [
    (lambda: ContourAccountant(300*SAMPLED + 3*Laplace(scale=9.)).delta(1.),
         ('delta', 'direction 1 of 2')),
    (lambda: ContourAccountant(30*Laplace(scale=20.) + 40*Laplace(scale=50.)).epsilon(1e-6),
     ('epsilon', 'step 1 of at most')),
    (lambda: ContourAccountant(10*RARE).epsilon(1e-30),
     ('epsilon', 'way 2 of at most 11', 'level')),
    (lambda: calibrate(lambda s: 3*Laplace(scale=s), eps=1., delta=1e-3), ('calibrate', 'delta')),
    (lambda: gdp(2*Laplace(scale=2.)), ('gdp', 'delta')),
    (lambda: tradeoff(3*SAMPLED, fpr=.1), ('tradeoff', 'delta')),
    (lambda: epsilon_after(20*SAMPLED, delta=1e-6), ('epsilon_after',)),
    (lambda: certify(100*SAMPLED, delta=1e-5), ('certify', 'epsilon')),
    (lambda: exponential_epsilon(eps=.1, steps=20, delta=1e-5), ('exponential_epsilon', 'shift')),
    (lambda: ContourAccountant(40*SAMPLED + 50*RARE).epsilon(1e-5), ('epsilon',)),
    (lambda: TiltedFFT(2*SAMPLED, mesh=.01), ('grid', 'curve 2 of 2')),
])
def test_what_is_told(monkeypatch, lines, ask, words):
    "The outermost task first, and a word for all within; an empty line at the end."
    clock = iter(range(10**9))
    monkeypatch.setattr('dp_saddle.base.progress.monotonic', lambda: next(clock))    # 1 s a look
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        ask()
    assert lines[-1] == '' and all(line.startswith(words[0]) for line in lines if line)
    for word in words: assert any(word in line for line in lines), (word, lines)

def test_verification_is_told(monkeypatch, lines):
    pytest.importorskip('flint')
    made = certify(100*SAMPLED, delta=1e-5)
    lines.clear()
    clock = iter(range(10**9))
    monkeypatch.setattr('dp_saddle.base.progress.monotonic', lambda: next(clock))
    assert verify(made)
    assert lines[0].startswith('verify') and lines[-1] == ''

def test_nothing_where_the_answer_is_quick():
    told = []
    show_progress(told.append, after=60.)
    try: ContourAccountant(3000*SAMPLED).epsilon(1e-6)
    finally: show_progress()
    assert told == []

def test_not_more_often_than_can_be_read(lines):
    "Some lines a second, however often the work looks up."
    start = time.monotonic()
    with Task('work') as task:
        while len(lines) < 3 and time.monotonic() < start + 30: task.next()
    took = time.monotonic() - start
    assert 3 <= len(lines) <= 3 + 5*took and task.at > 1000

def test_so_many_jobs_at_a_time():
    at_work, seen = set(), []
    def work(job):
        at_work.add(job)
        seen.append(len(at_work))
        time.sleep(.002)
        at_work.discard(job)
        return job
    for most in (1, 2):
        assert in_threads(work, [(job,) for job in range(40)], 'job', most) == list(range(40))
        assert max(seen) <= most

def test_after_an_error_no_job_begins():
    "Else who is interrupted waits for all that was asked."
    done = []
    def work(job):
        if not job: raise KeyError(job)
        time.sleep(.1)
        done.append(job)
    with pytest.raises(KeyError):
        in_threads(work, [(job,) for job in range(2000)], 'job')
    assert len(done) < 1000

def test_the_work_of_two_threads(lines):
    "Each has its own tasks, and ends only its own."
    def work(name):
        for _ in counted(range(3), name): time.sleep(.3)
    threads = [Thread(target=work, args=(name,)) for name in ('one', 'other')]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert any(line.startswith('one 2 of 3') for line in lines)
    assert any(line.startswith('other 2 of 3') for line in lines)
    assert not any('one' in line and 'other' in line for line in lines) and lines.count('') == 2
    lines.clear()
    still_here()                                            # nothing is left to tell of
    assert lines == []

def test_after_an_error(lines):
    "Tasks that an error ended are no part of the next one's line."
    with pytest.raises(ZeroDivisionError), Task('fails') as task:
        task.next()
        for _ in counted(range(2), 'part'): raise ZeroDivisionError
    with Task('next') as task: task.next()
    assert lines == ['fails 1, 0 s', '', 'next 1, 0 s', '']

SLOW = textwrap.dedent("""
    import warnings
    from dp_saddle.base import progress
    from dp_saddle.base.progress import Task, users_level
    now = 0.
    progress.monotonic = lambda: now
    def warn(): warnings.warn('wide', stacklevel=users_level())
    with Task('sleep', 3) as task:
        for _ in range(3):
            now += .6
            task.next()
        warn()
    print('done')
    """)

def on_a_terminal(code, **environment):
    "What a program writes to a terminal as its stderr, and to a pipe as its stdout."
    pty = pytest.importorskip('pty')
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE, stderr=theirs,
                          env=os.environ | environment, check=True)
    os.close(theirs)
    found = b''
    try:
        while piece := os.read(ours, 1 << 16): found += piece
    except OSError: pass                                    # the other end is closed
    os.close(ours)
    return found.decode(), done.stdout.decode()

def test_on_a_terminal():
    "One line, cleared before a warning and at the end."
    screen, out = on_a_terminal(SLOW)
    assert out == 'done\n'
    assert '\rdp_saddle: sleep 2 of 3, 1 s' in screen and 'sleep 1 of 3' not in screen
    line, warning = screen.split('UserWarning: wide')[0].rsplit('\r', 1)
    assert line.endswith(' '*10) and 'dp_saddle' not in warning and '<string>' in warning

def test_switched_off():
    screen, _ = on_a_terminal(SLOW, DP_SADDLE_PROGRESS='0')
    assert 'sleep' not in screen and 'wide' in screen

def test_in_a_pipe():
    "Nothing, unless it is asked for."
    plain = {k: v for k, v in os.environ.items() if k != 'DP_SADDLE_PROGRESS'}
    for asked in ({}, {'DP_SADDLE_PROGRESS': '1'}):
        done = subprocess.run([sys.executable, '-c', SLOW], capture_output=True, text=True,
                              env=plain | asked, check=True)
        assert ('sleep' in done.stderr) == bool(asked) and done.stdout == 'done\n'

def test_in_a_notebook(monkeypatch):
    "A notebook's stderr is no terminal, and is watched."
    written = []
    module = types.ModuleType('ipykernel.iostream')
    stream = type('OutStream', (), {'write': lambda self, text: written.append(text),
                                    'flush': lambda self: None, 'isatty': lambda self: False})
    stream.__module__ = module.__name__
    monkeypatch.setattr(sys, 'stderr', stream())
    monkeypatch.delenv('DP_SADDLE_PROGRESS', raising=False)
    show_progress(after=0.)
    try:
        with Task('cell') as task: task.next()
    finally: show_progress()
    assert written[0] == '\rdp_saddle: cell 1, 0 s' and written[-1].strip() == ''

def test_no_stderr(monkeypatch):
    "A program without a console has none."
    monkeypatch.setattr(sys, 'stderr', None)
    show_progress(True, after=0.)
    try:
        with Task('quiet') as task: task.next()
    finally: show_progress()

def test_answers_are_the_same(lines):
    "Whoever is told, the digits are those of who is not."
    run = 5*SAMPLED + 2*RandomizedResponse(eps=.3)
    told = ContourAccountant(run).epsilon(1e-6)
    show_progress(False)
    assert told == ContourAccountant(run).epsilon(1e-6)
