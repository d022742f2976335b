"What comes from outside: quoted, named, read. No error repeats what it was not asked about."
import ast
import json
from collections import Counter, OrderedDict, deque, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dp_saddle import (
    Budget,
    Composition,
    Gaussian,
    IndividualGDPFilter,
    Laplace,
    PoissonSubsampled,
    certify,
    load_certificate,
)
from dp_saddle.base.texts import kind_of, known, meant, quoted, told
from dp_saddle.command import main as cli
from dp_saddle.practice.run_files import SAMPLINGS, WORDS
from dp_saddle.practice.schedules import from_steps
from dp_saddle.practice.training_configs import read_run

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT/'dp_saddle').rglob('[a-z]*.py'))

# A value

@dataclass
class Noise:
    "Its repr is what dataclasses have."
    sigma: object
    hidden: object = 3

class Broken:
    "Nothing of it can be asked."
    def __repr__(self): raise KeyError('secret')

class Endless(list):
    "Never ends, if one asks for all of it."
    def __iter__(self):
        while True: yield 1
    def __repr__(self): raise AssertionError('all of it')

Pair = namedtuple('Pair', 'first second')

@pytest.mark.parametrize('value', [
    1, -2.5, True, None, 1e300, 'a word', b'bytes', '', [], {}, (), (1,), [1, [2, (3., 'x')]],
    {'a': [1], 2: {3: 4}}, {1}, Fraction(1, 3), Decimal('1.5'), np.float64(.5), np.arange(3),
    Noise(1.), Pair(1, 'b'), 'a'*78, 10**70, Gaussian(sigma=2.), range(3), print, Gaussian])
def test_a_short_value_is_its_repr(value):
    assert quoted(value) == repr(value)

LARGE = [
    'x'*10**7, b'x'*10**7, bytearray(10**7), 10**10**6, -10**10**6, [0]*10**6, (0,)*10**6,
    dict.fromkeys(range(10**6)), set(range(10**6)), OrderedDict.fromkeys(range(10**5)),
    Counter(range(10**5)), np.zeros(10**6), np.zeros((1000, 1000)), np.array([10**10**5]*2),
    np.array(['x'*10**6]*2), np.array(['x'*10**6]*100), np.str_('x'*10**6),
    Noise([0]*10**6), Pair('x'*10**6, 1), {'x'*10**6: 1}, [['x'*10**6]*9], Endless([1]),
    Fraction(10**10**5, 3), Exception('x'*10**5), deque(range(10**5))]

@pytest.mark.parametrize('value', LARGE, ids=lambda value: type(value).__name__)
def test_a_large_value_is_quoted_in_eighty_characters(value):
    assert 1 < len(quoted(value)) <= 80

def test_what_cannot_be_quoted():
    assert quoted(Broken()) == '<Broken>' and quoted([Broken()]) == '<list>'
    ring = [1]
    ring.append(ring)
    deep = []
    for _ in range(10**5): deep = [deep]
    for value in (ring, deep, {'a': ring}):
        assert len(quoted(value)) <= 80
    while deep: deep = deep[0]                          # not by recursion, at the end of the test

def test_of_a_file_the_kind_is_told():
    assert told('text') == "'text'" and told(2) == '2' and told(None) == 'None'
    assert told({'key': 'secret'}) == "a mapping of ['key']" and told(['secret']) == 'a list'
    assert kind_of('secret') == 'a text' and kind_of(True) == 'a number'

def interpolated(path):
    "(line, conversion) of what the f-strings of a module's errors hold."
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        is_error = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (
            node.func.id.endswith('Error') or node.func.id == '_expect')
        for part in ast.walk(node) if is_error else ():
            if isinstance(part, ast.FormattedValue): yield part.lineno, part.conversion

@pytest.mark.parametrize('path', MODULES, ids=lambda path: path.stem)
def test_no_error_has_a_repr_of_its_own(path):
    "A value is quoted by `quoted`: a repr has no end."
    lines = [i for i, how in interpolated(path) if how == ord('r')]
    assert not lines, f'say quoted(...) in {path.name}, lines {lines}'

def test_a_repr_in_an_error_is_noticed(tmp_path):
    bad = tmp_path/'bad.py'
    bad.write_text('raise ValueError(f"x must be 1, got {x!r}")\n')
    assert list(interpolated(bad)) == [(1, ord('r'))]

# A name

MECHANISMS = ('Gaussian', 'Laplace', 'RandomizedResponse', 'PureDP', 'ApproxDP', 'Discrete',
              'DiscreteGaussian', 'DiscreteLaplace', 'MixtureOfGaussians', 'TruncatedPoisson',
              'TreeNode', 'FixedSize', 'PoissonReplaceOne', 'BallsInBins', 'BinDraw', 'ZCDP',
              'ExponentialMechanism', 'BoundedRange')
OF_A_STEP = 'sigma', 'sensitivity', 'rate', 'count'
FLAGS = ['--' + word.replace('_', '-') for word in WORDS] + ['--delta', '--eps', '--find', '--json']

@pytest.mark.parametrize('wrong, right, names', [
    ('Gausian', 'Gaussian', MECHANISMS), ('gaussian', 'Gaussian', MECHANISMS),
    ('Gausssian', 'Gaussian', MECHANISMS), ('laplas', 'Laplace', MECHANISMS),
    ('Randomized_Response', 'RandomizedResponse', MECHANISMS), ('zcdp', 'ZCDP', MECHANISMS),
    ('TruncatedPoison', 'TruncatedPoisson', MECHANISMS), ('Pure-DP', 'PureDP', MECHANISMS),
    ('discrete-gaussian', 'DiscreteGaussian', MECHANISMS), ('Tree_Node', 'TreeNode', MECHANISMS),
    ('Aprox DP', 'ApproxDP', MECHANISMS), ('MixtureOfGaussian', 'MixtureOfGaussians', MECHANISMS),
    ('sigm', 'sigma', OF_A_STEP), ('sgima', 'sigma', OF_A_STEP), ('Sigma', 'sigma', OF_A_STEP),
    ('rates', 'rate', OF_A_STEP), ('counts', 'count', OF_A_STEP), ('cout', 'count', OF_A_STEP),
    ('sensitivty', 'sensitivity', OF_A_STEP), ('noise_multiplier', 'sigma', OF_A_STEP),
    ('sampling_rate', 'rate', OF_A_STEP), ('sample-rate', 'rate', OF_A_STEP),
    ('steps', 'count', OF_A_STEP), ('repetitions', 'count', OF_A_STEP),
    ('batchsize', 'batch_size', WORDS), ('batch-size', 'batch_size', WORDS),
    ('data_set_size', 'dataset_size', WORDS), ('datset_size', 'dataset_size', WORDS),
    ('epoch', 'epochs', WORDS), ('step', 'steps', WORDS), ('stesp', 'steps', WORDS),
    ('num_steps', 'steps', WORDS), ('iterations', 'steps', WORDS), ('samplings', 'sampling', WORDS),
    ('poison', 'poisson', SAMPLINGS), ('Shuffled', 'shuffle', SAMPLINGS),
    ('balls_in_bins', 'balls-in-bins', SAMPLINGS), ('dpsdg', 'dpsgd', ('steps', 'dpsgd', 'run')),
    ('step', 'steps', ('steps', 'dpsgd', 'run')), ('runs', 'run', ('steps', 'dpsgd', 'run')),
    ('--sigmas', '--sigma', FLAGS), ('--batch_size', '--batch-size', FLAGS),
    ('--noise-multiplier', '--sigma', FLAGS), ('--epsilon', '--eps', FLAGS),
    ('--dleta', '--delta', FLAGS)])
def test_what_was_meant(wrong, right, names):
    assert meant(wrong, names) == f'; did you mean {right!r}?'

@pytest.mark.parametrize('wrong, names', [
    ('PoissonSubsampled', MECHANISMS), ('SVT', MECHANISMS), ('Exponential', MECHANISMS),
    ('GDP', MECHANISMS), ('Skellam', MECHANISMS), ('epochs', OF_A_STEP), ('sigma2', OF_A_STEP),
    ('date', OF_A_STEP), ('mean', OF_A_STEP), ('eps', ('steps', 'epochs')), ('--run', FLAGS),
    ('--date', FLAGS), ('--out', FLAGS), ('password', WORDS), ('random', SAMPLINGS),
    ('', WORDS), ('-', WORDS), ('x'*10**6, WORDS), (None, WORDS), (3, WORDS), (['rate'], WORDS)])
def test_where_nothing_was_meant_nothing_is_offered(wrong, names):
    assert meant(wrong, names) == ''

def test_all_names_of_one_list_are_told_apart():
    "No name is offered for another that is right elsewhere."
    for names in (MECHANISMS, WORDS, SAMPLINGS):
        for name in names:
            others = [n for n in names if n != name]
            assert meant(name, others) == '' or name == 'DiscreteLaplace', name

def test_a_name_that_is_too_long_is_cut():
    with pytest.raises(ValueError) as caught: known('x'*10**6, ('rate',), 'key')
    assert len(str(caught.value)) < 150

@pytest.mark.parametrize('step, said', [
    ({'mechanism': 'PoissonSubsampled'}, "its base, with 'rate' beside it"),
    ({'mechanism': 'Gaussian', 'sigma': 1., 'epochs': 3}, "a word of 'dpsgd'"),
    ({'mechanism': 'Gaussian', 'sigma': 1., 'batch_size': 3}, "a word of 'dpsgd'"),
    ({'mechanism': 'Gaussian', 'noise_multiplier': 1.}, "did you mean 'sigma'?"),
    ({'mechanism': 'Gaussian', 'sigma': 1., 'steps': 3}, "did you mean 'count'?")])
def test_a_step_says_where_a_word_belongs(step, said):
    with pytest.raises(ValueError, match='step 0') as caught: from_steps([step])
    assert said in str(caught.value)

def test_svt_is_no_tree():
    for name in ('SVT', 'PoissonSubsampled'):
        with pytest.raises(ValueError, match='must be one of') as caught:
            from_steps([{'mechanism': name}])
        assert 'did you mean' not in str(caught.value)

STEP = {'mechanism': 'Gaussian', 'sigma': 2., 'rate': .01, 'count': 3}
LOADER = dict(sigma=2., rate=.01, steps=3)

@pytest.mark.parametrize('data, said', [
    (STEP, 'a step stands in a list'), (LOADER, 'sampling is needed'),
    ({'sigma': 1., 'rate': .1}, 'epochs is needed'), ({'dpsdg': LOADER}, "mean 'dpsgd'"),
    ([{'dpsgd': LOADER, 'epochs': 3}], "a word of 'dpsgd'"),
    ({'dpsgd': {**LOADER, 'count': 3}}, "beside 'dpsgd'"),
    ({'dpsgd': {**LOADER, 'delta': 1e-5}}, 'no part of a run'),
    ({'dpsgd': {**LOADER, 'mechanism': 'Laplace'}}, 'a step of a list')])
def test_a_file_says_where_a_word_belongs(tmp_path, data, said):
    path = tmp_path/'run.json'
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=said): read_run(path)

# A file

SECRET = 'hunter2-of-somebody'
FILL = {f'entry {i}': [i, SECRET, {'key': SECRET}] for i in range(50)}

def with_secrets(right):
    "What a file may hold by mistake, in place of something right, a mapping; and as much more."
    yield SECRET
    yield [SECRET]*100
    yield FILL
    yield [FILL]
    yield {**right, 'password': SECRET, **FILL}
    yield {**right, 'password': {'deep': [SECRET]*100}}
    for key, value in right.items():
        for wrong in ([FILL], FILL, {'password': SECRET}, [[SECRET]], {**FILL}, [{'a': SECRET}]):
            yield {**right, key: wrong}
        if isinstance(value, dict):
            for inner in with_secrets(value): yield {**right, key: inner}
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for inner in with_secrets(value[0]): yield {**right, key: [inner]}

def refused(call, *args):
    "What the error of a call says; None if there is none."
    try:
        call(*args)
    except (ValueError, TypeError) as error:
        return str(error)
    return None

def is_discreet(said, path):
    return said is None or SECRET not in said and len(said.replace(str(path), '')) < 700

RUNS = [{'steps': [STEP]}, {'dpsgd': LOADER}, {'run': [STEP], 'relation': 'x'}, STEP,
        {'steps': [{'mechanism': 'Selected', 'run': [STEP], 'count': 1,
                    'tries': {'law': 'Geometric', 'mean': 3.}}]},
        {'steps': [{'mechanism': 'Discrete', 'p': [.5, .5], 'q': [.4, .6]}]}]

@pytest.mark.parametrize('suffix', ['json', pytest.param('yaml', marks=pytest.mark.slow)])
@pytest.mark.parametrize('i', range(len(RUNS)))
def test_a_run_file_keeps_its_secrets(tmp_path, i, suffix):
    if suffix == 'yaml': pytest.importorskip('yaml')
    path, refusals = tmp_path/f'run.{suffix}', 0
    for data in with_secrets(RUNS[i]):
        if RUNS[i] is STEP and isinstance(data, dict): data = [data]
        path.write_text(json.dumps(data))
        said = refused(read_run, path)
        assert is_discreet(said, path), said[:1000]
        refusals += said is not None
    assert refusals > 20

BY_HAND = [f'password: !{SECRET}\n', f'password: *{SECRET}\n', f'a: @{SECRET}', f'a: "{SECRET}',
           f'{SECRET}: [', f'steps: {{a: {SECRET}', f'%{SECRET}', f'"{SECRET}\\q"',
           f'- a\n {SECRET}',
           f'a: {SECRET}: 3', f'{SECRET} {SECRET}', f'a: &{SECRET} [*{SECRET}]', f'? {SECRET}\n: [']

@pytest.mark.parametrize('text', BY_HAND)
@pytest.mark.parametrize('suffix', ['json', 'yaml'])
def test_what_cannot_be_read_is_not_repeated(tmp_path, text, suffix):
    if suffix == 'yaml': pytest.importorskip('yaml')
    path = tmp_path/f'run.{suffix}'
    path.write_text(text)
    said = refused(read_run, path)
    assert said and len(said.replace(str(path), '')) < 300
    assert SECRET not in said or 'key' in said or 'mapping of' in said

def made_certificate():
    return json.loads(certify(10*PoissonSubsampled(base=Gaussian(sigma=2.), rate=.01),
                              eps=.1).to_json())

def test_a_certificate_keeps_its_secrets(tmp_path):
    path = tmp_path/'run.cert.json'
    for data in with_secrets(made_certificate()):
        path.write_text(json.dumps(data))
        said = refused(load_certificate, path)
        assert said is None or is_discreet(said, path), said[:1000]

def ledgers(tmp_path):
    budget = Budget(eps=3., delta=1e-5)
    budget.spend(Gaussian(sigma=9.), 2)
    yield budget, tmp_path/'budget.json'
    yield IndividualGDPFilter(1., 3), tmp_path/'filter.json'

def test_a_ledger_keeps_its_secrets(tmp_path):
    for saved, path in ledgers(tmp_path):
        saved.save(path)
        right = json.loads(path.read_text())
        for data in with_secrets(right):
            path.write_text(json.dumps(data))
            said = refused(saved.load, path)
            assert said is None or is_discreet(said, path), said[:1000]
            said = refused(saved.from_dict, data)
            assert said is None or is_discreet(said, path), said[:1000]
        for steps in with_secrets(STEP):                # what stands in its history
            if 'history' not in right: break
            path.write_text(json.dumps(right | {'history': json.dumps([steps])}))
            said = refused(saved.load, path)
            assert said and is_discreet(said, path), said[:1000]

COMMANDS = ['epsilon --delta 1e-5', 'delta --eps 1', 'curve --out x.png', 'tradeoff',
            'compare --delta 1e-5', 'report --delta 1e-5', 'certify --delta 1e-5 --out x.json',
            'budget left LEDGER', 'budget spend LEDGER', 'audit --in IN --out IN --delta 1e-5']
WRONG = {'unknown': {'steps': [STEP], 'password': SECRET, **FILL}, 'text': SECRET,
         'deep': [{**STEP, 'sigma': FILL}], 'top': FILL}

@pytest.mark.parametrize('command', COMMANDS)
@pytest.mark.parametrize('kind', WRONG)
def test_a_command_keeps_the_secrets_of_its_file(tmp_path, capsys, command, kind):
    path, ledger, scores = (tmp_path/name for name in ('run.json', 'budget.json', 'in.txt'))
    path.write_text(json.dumps(WRONG[kind]))
    Budget(eps=3., delta=1e-5).save(ledger)
    scores.write_text('1\n2\n')
    words = command.replace('LEDGER', str(ledger)).replace('IN', str(scores)).split()
    with pytest.raises(SystemExit) as caught: cli.main([*words, '--run', str(path)])
    said = capsys.readouterr().err
    assert caught.value.code == 2 and said.count('\n') == 1 and is_discreet(said, path), said[:999]

@pytest.mark.parametrize('words', ['verify FILE', 'budget show FILE', 'report --certificate FILE '
    '--sigma 1 --rate 1 --steps 1 --delta .1', 'audit --in FILE --out FILE --sigma 1 --rate 1 '
    '--steps 1 --delta .1'])
@pytest.mark.parametrize('kind', WRONG)
def test_a_command_keeps_the_secrets_of_another_file(tmp_path, capsys, words, kind):
    path = tmp_path/'other.json'
    path.write_text(json.dumps(WRONG[kind], indent=1))
    with pytest.raises(SystemExit) as caught:
        cli.main(words.replace('FILE', str(path)).split())
    said = capsys.readouterr().err
    assert caught.value.code == 2 and said.count('\n') == 1 and is_discreet(said, path), said[:999]

@pytest.mark.parametrize('words', [
    'epsilon --sigma X --rate 1 --steps 1 --delta .1', 'X', 'epsilon --X 3', 'epsilon X',
    'epsilon --sigma 1 X --rate 1', 'budget X ledger.json', 'completion X',
    'report --form X --sigma 1', 'calibrate --find X', 'epsilon --tries X --sigma 1 --rate 1 '
    '--steps 1 --delta .1', 'epsilon --sigma 1 --rate 1 --steps 1/X --delta .1'])
def test_a_long_word_is_cut(words, capsys):
    with pytest.raises(SystemExit) as caught: cli.main(words.replace('X', 'x'*10**5).split(' '))
    said = capsys.readouterr().err
    assert caught.value.code == 2 and said.count('\n') == 1 and len(said) < 500

def test_messages_of_checks_are_short():
    "A thousand errors a second can be logged, whatever came."
    for value in LARGE:
        for call in (lambda v: Laplace(scale=v), lambda v: Budget(eps=v, delta=.1),
                     lambda v: certify(v, eps=1.),
                     lambda v: Composition(((Gaussian(sigma=1.), v),)),
                     lambda v: PoissonSubsampled(base=v, rate=.1)):
            said = refused(call, value)
            assert said and len(said) < 300, said[:500]

@pytest.mark.parametrize('text', ['dpsgd: {{password: hunter2SECRET}}\n',
                                  '? [hunter2SECRET]\n: 1\n',
                                  '{{pw: {deep: hunter2SECRET}}: 1}\n'])
def test_a_key_that_is_no_text_is_not_shown(tmp_path, text):
    "A template whose braces were not filled in."
    pytest.importorskip('yaml')
    path = tmp_path/'run.yaml'
    path.write_text(text, encoding='utf-8')
    with pytest.raises(ValueError) as refused:
        read_run(path)
    assert 'SECRET' not in str(refused.value) and len(str(refused.value)) < 600
