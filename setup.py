"""Packaging. What there is to say about the project stands in settings.ini, which nbdev reads too;
name and Python version stand in pyproject.toml, where nbdev puts them."""
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup

here = Path(__file__).resolve().parent
config = ConfigParser(delimiters=["="])
config.read(here/"settings.ini", encoding="utf-8")
about = config["DEFAULT"]

def words(key): return about[key].split()

setup(
    version=about["version"],
    description=about["description"],
    long_description=(here/"README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=about["author"],
    url=about["git_url"],
    keywords=words("keywords"),
    license="Apache-2.0",
    classifiers=["Development Status :: 3 - Alpha",
                 "Intended Audience :: Science/Research",
                 "Programming Language :: Python :: 3",
                 "Topic :: Scientific/Engineering :: Mathematics"],
    packages=[about["lib_path"]],
    install_requires=words("requirements"),
    extras_require={extra: words(f"{extra}_requirements") for extra in ("distributed", "yaml", "completion", "opacus", "dp-accounting", "dev", "docs", "browser")},
    entry_points={"console_scripts": words("console_scripts"),
                  "nbdev": [f"{about['lib_name']}={about['lib_path']}._modidx:d"]},  # lets other nbdev projects link here
)
