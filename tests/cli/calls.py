"""Calls of the command line in the test's own process."""

from torch_energy_graph.cli import main


def run(capsys, *args):
    """Exit code, standard output and standard error."""
    code = main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return code, out, err
