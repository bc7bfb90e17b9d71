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
CORPUS = [line.split() for line in (SOURCE / "tools/corpus.txt").read_text().splitlines() if line and line[0] != "#"]
FASTER = [line for line in (SOURCE / "tools/packages-faster.txt").read_text().splitlines() if line and line[0] != "#"]
PACKAGES = [line for line in (SOURCE / "tools/packages.txt").read_text().splitlines() if line and line[0] != "#"] + FASTER


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddlbench-setup-"))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(SOURCE / "tools", self.folder / "clone/tools")
        self.commands = self.folder / "bin"
        self.commands.mkdir()
        for tool in "bash cat cp cut dirname env grep mkdir rm sha256sum sort tr".split():
            (self.commands / tool).symlink_to(shutil.which(tool))
        self.log = self.folder / "log"
        self.log.touch()
        self.installed("git make")
        self.user(1000)
        self.stand_in("apt-get", f'echo "apt-get $*" >> {self.log}')
        self.locale = self.folder / "locale"
        (self.locale / "de/LC_MESSAGES").mkdir(parents=True)
        for _, catalogue in CORPUS:
            self.catalogue(catalogue).touch()

    def catalogue(self, name):
        return self.locale / f"de/LC_MESSAGES/{name}.mo"

    def stand_in(self, name, script):
        path = self.commands / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def installed(self, names):
        self.stand_in("dpkg-query", f'for last; do :; done; [[ " {names} " == *" $last "* ]] && printf "install ok installed"')

    def user(self, number):
        self.stand_in("id", f"echo {number}")

    def environment(self):
        """Python environments that setup.sh takes for made, and whose pip only notes what it was asked for."""
        for name in ("venv", "traces"):
            python = self.folder / "clone/.deps" / name / "bin/python"
            python.parent.mkdir(parents=True)
            python.write_text(f'#!/bin/bash\n[ "$1" = -m ] && echo "{name}: $*" >> {self.log}; exit 0\n')
            python.chmod(0o755)

    def run_it(self):
        return subprocess.run([self.folder / "clone/tools/setup.sh"], env={"PATH": str(self.commands), "DDLBENCH_LOCALE": str(self.locale)}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def test_without_root_it_names_every_missing_package_and_changes_nothing(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        asked = done.stderr.splitlines()[-1].split("apt-get install --no-install-recommends ")[1].split()
        self.assertEqual(asked, [package for package in PACKAGES if package != "git"])
        self.assertEqual(self.log.read_text(), "")
        self.assertFalse((self.folder / "clone/.deps").exists())

    def test_what_only_makes_it_faster_is_told_where_nobody_may_install_it(self):
        self.installed(" ".join(package for package in PACKAGES if package not in FASTER))
        self.environment()
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"it would be faster with what only root may install: apt-get install --no-install-recommends {' '.join(FASTER)}\n", done.stderr)
        self.assertNotIn("apt-get", self.log.read_text())

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
        self.assertIn("venv: -m pip install", first)
        self.assertIn("traces: -m pip install", first)
        self.assertNotIn("apt-get", first)
        done = self.run_it()
        self.assertEqual((done.returncode, done.stderr, self.log.read_text()), (0, "", first))

    def test_catalogues_that_a_slim_system_left_out_are_unpacked_beside(self):
        self.installed(" ".join(PACKAGES))
        self.environment()
        for name in ("git", "gcc-12", "cpplib-12"):
            self.catalogue(name).unlink()
        # Each package to a .deb, each .deb to a catalogue of its name.
        self.stand_in("apt-get", f'echo "apt-get $*" >> {self.log}; shift 2; for p; do : > $p.deb; done')
        self.stand_in("dpkg-deb", 'mkdir -p $3/usr/share/locale/de/LC_MESSAGES; : > $3/usr/share/locale/de/LC_MESSAGES/${2%.deb}.mo')
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("apt-get download -q gcc-12-locales git\n", self.log.read_text())
        deps = self.folder / "clone/.deps"
        self.assertEqual(sorted(path.name for path in (deps / "locale/de/LC_MESSAGES").iterdir()), ["gcc-12-locales.mo", "git.mo"])
        self.assertFalse((deps / "unpack").exists())

    def test_catalogues_that_cannot_be_had_are_said_and_do_not_stop_it(self):
        self.installed(" ".join(PACKAGES))
        self.environment()
        self.catalogue("tar").unlink()
        self.stand_in("apt-get", "exit 100")
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("with --synthetic only", done.stderr)

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
