"""`cmake --install` into an empty folder: what lies there works from anywhere, with nothing of this tree in sight.

usage: install_test.py BUILD-FOLDER CMAKE
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, CMAKE = sys.argv[1:3]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="ddlbench-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.prefix], check=True, capture_output=True)
        # As a new user's shell would have it, in a folder that is no clone.
        cls.elsewhere = cls.prefix / "elsewhere"
        cls.elsewhere.mkdir()
        cls.environment = {"PATH": f"{cls.prefix}/bin:/usr/bin:/bin", "HOME": str(cls.elsewhere)}

    def ddlbench(self, *arguments):
        done = subprocess.run(["ddlbench", *arguments], cwd=self.elsewhere, env=self.environment, text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_trains_with_two_workers(self):
        record = json.loads(self.ddlbench("run", "--synthetic", "--train-samples", "256", "--test-samples", "64", "--batch", "32",
                                          "--steps", "4", "--workers", "2", "--json"))
        self.assertEqual((record["state"], record["samples"]["steps"]), ("ok", 4))
        self.ddlbench("report", "-o", "report.html")
        self.assertIn("vega", (self.elsewhere / "report.html").read_text())

    def test_it_has_its_studies(self):
        names = [item["name"] for item in json.loads(self.ddlbench("list", "studies", "--json"))["items"]]
        self.assertIn("first", names)
        self.assertEqual(len(json.loads(self.ddlbench("sweep", "first", "--dry-run", "--json"))["experiments"]), 6)

    def test_it_loads_libtorch_from_beside_it(self):
        """Where the wheel is a CPU one; one with CUDA stays where it is (cmake/Install.cmake)."""
        if not (self.prefix / "lib/ddlbench/libtorch_cpu.so").exists():
            self.assertNotIn("+cpu", self.ddlbench("--version"))
            return
        maps = subprocess.run(["ldd", self.prefix / "bin/ddlbench"], capture_output=True, text=True, check=True).stdout
        # By name alone: addresses have letters too.
        parts = [line.split("=>") for line in maps.splitlines() if "=>" in line]
        libraries = [where.split()[0] for name, where in parts if "torch" in name or "c10" in name]
        self.assertGreaterEqual(len(libraries), 2)
        for library in libraries:
            self.assertTrue(pathlib.Path(library).resolve().is_relative_to(self.prefix.resolve()), library)

    def test_manual_and_completions_lie_where_shells_look(self):
        for file in ("share/man/man1/ddlbench.1", "share/man/man1/ddlbench-run.1", "share/bash-completion/completions/ddlbench",
                     "share/zsh/site-functions/_ddlbench", "share/fish/vendor_completions.d/ddlbench.fish",
                     "share/doc/ddlbench/LICENSE"):
            self.assertGreater((self.prefix / file).stat().st_size, 100, file)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
