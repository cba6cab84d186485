"""Small defects, one at a time, put into copies of our own code: what no check sees is a gap.

`make mutants` prints the survivors (`python -m tests.mutation --help`); `make test-all` runs a
sample.

The tools for Python that were looked at (mutmut, cosmic-ray, mutatest) start a test run of its own
for each mutant, know nothing of WGSL, Jinja2 and C, and write into the working tree or need another
layout of it; here a process that has the hosts loaded forks for each mutant, which takes a second
or two, and one way of choosing checks serves all three languages.

A mutant is a text of one file. `python_sites` and `token_sites` tell where a text can be changed,
`sandbox` makes the package as it would be installed with that text (links to the rest), `selection`
names the checks of a file, `probe` is a check that knows which plans a mutant changes,
and `runner` forks. `equivalent.json` lists mutants that change nothing that anyone could see, each
with its reason; lines are named by their text, so that the list outlives other changes."""
