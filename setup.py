from setuptools import setup

# The metadata is in pyproject.toml; native extensions are declared here.
setup()
