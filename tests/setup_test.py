"""tools/setup.sh on a machine that lacks packages: what it says, what it asks apt-get for, and that it is done once.

apt-get, dpkg-query, id, sudo and the interpreter are stand-ins on the PATH: the real ones would change this machine.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = [line for line in (SOURCE / "tools/packages.txt").read_text().splitlines() if line and line[0] != "#"]


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddlbench-setup-"))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(SOURCE / "tools", self.folder / "clone/tools")
        self.commands = self.folder / "bin"
        self.commands.mkdir()
        for tool in "bash cat cut dirname env grep mkdir rm sha256sum tr".split():
            (self.commands / tool).symlink_to(shutil.which(tool))
        self.log = self.folder / "log"
        self.log.touch()
        self.installed("git make")
        self.user(1000)
        self.stand_in("apt-get", f'echo "apt-get $*" >> {self.log}')

    def stand_in(self, name, script):
        path = self.commands / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def installed(self, names):
        self.stand_in("dpkg-query", f'for last; do :; done; [[ " {names} " == *" $last "* ]] && printf "install ok installed"')

    def user(self, number):
        self.stand_in("id", f"echo {number}")

    def environment(self):
        """A Python environment that setup.sh takes for made, and whose pip only notes what it was asked for."""
        python = self.folder / "clone/.deps/venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/bash\n[ "$1" = -m ] && echo "$*" >> {self.log}; exit 0\n')
        python.chmod(0o755)

    def run_it(self):
        return subprocess.run([self.folder / "clone/tools/setup.sh"], env={"PATH": str(self.commands)}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def test_without_root_it_names_every_missing_package_and_changes_nothing(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        asked = done.stderr.splitlines()[-1].split("apt-get install --no-install-recommends ")[1].split()
        self.assertEqual(asked, [package for package in PACKAGES if package != "git"])
        self.assertEqual(self.log.read_text(), "")
        self.assertFalse((self.folder / "clone/.deps").exists())

    def test_a_sudo_that_wants_a_password_counts_as_none_without_a_terminal(self):
        self.stand_in("sudo", '[ "$1" = -n ] && exit 1; exec "$@"')
        self.assertEqual(self.run_it().returncode, 1)
        self.assertEqual(self.log.read_text(), "")

    def test_root_and_sudo_install_what_is_missing_and_nothing_else(self):
        for user, how in ((0, None), (1000, '[ "$1" = -n ] && shift; exec "$@"')):
            with self.subTest(user=user):
                shutil.rmtree(self.folder / "clone/.deps", ignore_errors=True)
                self.environment()
                self.log.write_text("")
                self.user(user)
                if how:
                    self.stand_in("sudo", how)
                    self.stand_in("true", "exit 0")
                done = self.run_it()
                self.assertEqual(done.returncode, 0, done.stderr)
                asked = [line for line in self.log.read_text().splitlines() if line.startswith("apt-get install")]
                self.assertEqual(asked[0].split("--no-install-recommends ")[1].split(), [package for package in PACKAGES if package != "git"])

    def test_a_second_call_does_nothing(self):
        self.installed(" ".join(PACKAGES))
        self.environment()
        self.assertEqual(self.run_it().returncode, 0)
        first = self.log.read_text()
        self.assertIn("pip install", first)
        self.assertNotIn("apt-get", first)
        done = self.run_it()
        self.assertEqual((done.returncode, done.stderr, self.log.read_text()), (0, "", first))

    def test_a_changed_list_of_packages_is_noticed(self):
        self.installed(" ".join(PACKAGES))
        self.environment()
        self.assertEqual(self.run_it().returncode, 0)
        with open(self.folder / "clone/tools/packages.txt", "a") as file:
            file.write("one-more\n")
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.rstrip().endswith(" one-more"), done.stderr)


if __name__ == "__main__":
    unittest.main()
