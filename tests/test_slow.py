"The list of examples for the slow run, slow.json."

import pytest

import conftest


@pytest.fixture(autouse=True)
def all_of_them(request):
    if request.config.option.keyword or any("::" in word for word in request.config.args):
        pytest.skip("single tests are asked for")


def test_all_that_are_listed_are_there(request):
    "Of each test that has been collected: an example that is renamed has to be listed anew."
    assert request.config.stash[conftest.LOST] == []


def test_each_has_quick_ones_beside_it(request):
    "No test is wholly in the slow run by this list; and none is listed twice."
    for module, tests in conftest.SLOW.items():
        for name, ids in tests.items():
            assert ids and len(ids) == len(set(ids)), (module, name)
            quick = [
                item
                for item in request.session.items
                if getattr(item, "originalname", "") == name
                and item.path.stem == f"test_{module}"
                and not item.get_closest_marker("slow")
            ]
            whole = any(item.path.stem == f"test_{module}" for item in request.session.items)
            assert quick or not whole, (module, name)
