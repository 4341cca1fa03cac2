"""pre-commit with the hooks of this repository."""

import os

from harness import REPOSITORY, build_environment, check, clone, demo, edit, fresh, run, venv

SOURCE = None


def source():
    """A clone, its revision, and the cache in which pre-commit builds it at first use."""
    global SOURCE
    if SOURCE is None:
        path = clone()
        rev = run("git", "rev-parse", "HEAD", cwd=path, expect=0).out.strip()
        SOURCE = (path, rev, fresh("pre-commit"))
    return SOURCE


class Project:
    """The git repository of a user, with pre-commit installed."""

    def __init__(self, hook):
        path, rev, home = source()
        self.dir = fresh("project")
        self.env = build_environment(
            PRE_COMMIT_HOME=str(home),
            PATH=f"{venv('')}:{os.environ['PATH']}",
            GIT_CONFIG_GLOBAL=os.devnull,
            GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.com",
            GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.com",
        )
        self.run("git", "init", "--quiet")
        (self.dir / ".pre-commit-config.yaml").write_text(
            f"repos:\n  - repo: file://{path}\n    rev: {rev}\n    hooks:\n      - id: {hook}\n"
        )
        self.run("pre-commit", "install")

    def run(self, *command, expect=0):
        return run(*command, cwd=self.dir, env=self.env, expect=expect)

    def commit(self, expect):
        self.run("git", "add", "--all")
        return self.run("git", "commit", "--message", "x", expect=expect).all

    def text(self, file):
        return (self.dir / file).read_text()


@check
def a_bad_manifest_is_not_committed():
    project = Project("agentproto-lint")
    demo("bad", project.dir)
    said = project.commit(expect=1)
    for part in ["install-extra-field", "heron/AGENT-CLI.md:11:56", "sec-value-present"]:
        assert part in said, f"{part} is missing in\n{said}"
    assert project.run("git", "rev-list", "--all").out == "", "a commit was created"


@check
def a_good_manifest_is_committed():
    project = Project("agentproto-lint")
    demo("good", project.dir)
    assert "Passed" in project.commit(expect=0)


@check
def other_files_are_ignored():
    project = Project("agentproto-lint")
    (project.dir / "README.md").write_text("---\nbroken: [\n---\n")
    assert "no files to check" in project.commit(expect=0)


@check
def only_staged_changes_are_linted():
    project = Project("agentproto-lint")
    demo("good", project.dir)
    project.run("git", "add", "--all")
    edit(project.dir / "heron/AGENT-CLI.md", "name: heron\n", "name: heron\nsurprise: 1\n")
    project.run("git", "commit", "--message", "x")
    assert "surprise" in project.text("heron/AGENT-CLI.md")


@check
def excluded_files_are_not_linted():
    project = Project("agentproto-lint")
    demo("bad", project.dir)
    (project.dir / "agentproto.toml").write_text('[lint]\nexclude = ["heron/"]\n')
    project.commit(expect=0)


@check
def the_fix_hook_applies_fixes():
    project = Project("agentproto-fix")
    demo("good", project.dir)
    manifest = project.dir / "heron/AGENT-CLI.md"
    edit(manifest, "supported: [transcript, none]", "supported: [none]")
    said = project.commit(expect=1)
    assert "files were modified by this hook" in said, said
    assert "supported: [none, transcript]" in project.text("heron/AGENT-CLI.md")
    project.commit(expect=0)


@check
def the_installed_toolchain_is_used():
    Project("agentproto-lint").run("pre-commit", "install-hooks")
    environments = [p.name for p in source()[2].glob("*/rustenv-*")]
    assert environments == ["rustenv-system"], environments


@check
def the_hook_file_is_valid():
    run(venv("pre-commit"), "validate-manifest", REPOSITORY / ".pre-commit-hooks.yaml", expect=0)
