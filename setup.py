"""The list of packages, found rather than written down: pyproject.toml maps the folders."""

from setuptools import find_packages, setup

top = find_packages(include=["modules*", "transforms*", "lowering_checks*"])
setup(packages=[*find_packages("src"), *(f"tirstep.{name}" for name in top)])
