"""Packaging. What there is to say about the project stands in settings.ini, which nbdev reads too;
name and Python version stand in pyproject.toml, where nbdev puts them."""
import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).resolve().parent
config = ConfigParser(delimiters=["="])
config.read(here / "settings.ini", encoding="utf-8")
about = config["DEFAULT"]


def words(key):
    return about[key].split()


def long_description():
    """README.md for a package registry, which has none of the project's other files: its relative
    links lead to the code host or, where the project is on none, are their texts."""
    text = (here / "README.md").read_text(encoding="utf-8")
    relative = r"\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)"
    if not about["git_url"]:
        text = re.sub("!" + relative, "", text)
        return re.sub(relative, r"\1", text)
    text = re.sub("!" + relative, rf"![\1]({about['git_url']}/raw/{about['branch']}/\2)", text)
    return re.sub(relative, rf"[\1]({about['git_url']}/blob/{about['branch']}/\2)", text)


suffix = "_requirements"
setup(
    version=about["version"],
    description=about["description"],
    long_description=long_description(),
    long_description_content_type="text/markdown",
    author=about["author"],
    url=about["git_url"] or None,
    keywords=words("keywords"),
    license="Apache-2.0",
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Mathematics",
        "Topic :: Security",
        "Typing :: Typed",
    ],
    packages=find_packages(include=[about["lib_path"], about["lib_path"] + ".*"]),
    package_data={about["lib_path"]: ["py.typed", "__init__.pyi", "norms.npz", "sampling.npz"]},
    install_requires=words("requirements"),
    extras_require={k.removesuffix(suffix): words(k) for k in about if k.endswith(suffix)},
    entry_points={
        "console_scripts": words("console_scripts"),
        # By this nbdev finds the lines of the source for the site's documentation.
        "nbdev": [f"{about['lib_name']}={about['lib_path']}._modidx:d"],
    },
)
