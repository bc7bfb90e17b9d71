#!/usr/bin/env python3
"""The command line from outside: help, examples, exit codes, messages, --json. Trains nothing.

Usage: cli_test.py PATH_OF_DDLBENCH [unittest arguments]
"""
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "ddlbench"
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = "run sweep probe predict explain advise validate status resume list doctor env report export selftest completion man".split()
KINDS = "models datasets strategies optimizers collectives compressions transports storages formats devices subjects studies machines".split()


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ddlbench-cli-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        # What this machine's user has measured is none of a test's business.
        os.environ["DDLBENCH_MACHINE"] = os.path.join(self.folder, "machine.json")
        os.symlink(os.path.join(SOURCE, "studies"), os.path.join(self.folder, "studies"))

    def run_it(self, *arguments, **options):
        options.setdefault("cwd", self.folder)
        options.setdefault("timeout", 600)  # a machine that reads libraries anew each time is slow, and this no benchmark
        return subprocess.run([BINARY, *arguments], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **options)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)
        return name

    def refused(self, arguments, code, *words):
        """One line on standard error, nothing on standard output, this exit code, all of these words."""
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, code, (arguments, done.stderr))
        self.assertEqual(done.stdout, "", arguments)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("ddlbench: error: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotRegex(done.stderr, r"--([a-z-]+): \1:", "a key is named once")
        return done.stderr

    helped = {}  # by command, for all tests

    def help_of(self, command):
        if command not in self.helped:
            self.helped[command] = self.run_it(command, "--help")
        return self.helped[command]

    def examples(self, command):
        text = self.help_of(command).stdout
        lines = text[text.index("Examples:"):].splitlines()[1:]
        return [shlex.split(line)[1:] for line in lines if line.strip().startswith("ddlbench ")]


class Help(CommandLine):
    def test_every_command_has_help_that_ends_with_examples(self):
        for command in COMMANDS:
            done = self.help_of(command)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertTrue(done.stdout.rstrip().splitlines()[-1].strip().startswith("ddlbench " + command), done.stdout[-300:])
        top = self.run_it("--help").stdout
        for command in COMMANDS:
            self.assertRegex(top, rf"(?m)^\s+{command}\s")

    def test_examples_run_as_they_stand(self):
        quick = {"list", "env", "completion", "man", "predict", "advise", "validate"}
        for command in COMMANDS:
            examples = self.examples(command)
            self.assertTrue(examples, command)
            for example in examples:
                if command in quick:
                    self.assertEqual(self.run_it(*example).returncode, 0, example)
                elif command == "doctor":
                    self.assertIn(self.run_it(*example).returncode, (0, 6), example)
                elif command == "probe":
                    # All sizes to 64 MiB of every algorithm for 100 ms each are minutes.
                    brief = ["--budget", "2ms", *([] if "--sizes" in example else ["--sizes", "1KiB,64KiB"])] if example[1] == "comm" else ["--sizes", "1KiB,4MiB"] if example[1].startswith("-") else []
                    done = self.run_it(*example, *brief)
                    lacks = "mpi[" in " ".join(example) and done.returncode == 6 and "is not in this build" in done.stderr
                    # A test machine may have no folder but in memory.
                    lacks |= "storage" in example and done.returncode == 1 and "stays in memory" in done.stderr
                    self.assertTrue(lacks or done.returncode == 0, (example, done.stderr))
                elif command in ("run", "sweep"):
                    done = self.run_it(*example, *([] if "--dry-run" in example else ["--dry-run"]))
                    self.assertEqual(done.returncode, 0, (example, done.stderr))
                elif command in ("status", "resume", "report", "export", "explain"):
                    # There is no store here: they parse, and say so.
                    self.refused(example, 2, "no such file")

    def test_version(self):
        done = self.run_it("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^ddlbench \d+\.\d+\.\d+ \(.*torch .*\)\n$")

    def test_every_key_is_a_flag(self):
        text = self.help_of("run").stdout
        config = json.loads(self.run_it("run", "--dry-run", "--json").stdout)["config"]
        for key in config:
            self.assertIn("--" + key.replace("_", "-"), text)


class BadInput(CommandLine):
    def test_unknown_words_name_the_nearest(self):
        self.refused(["rnu"], 2, "unknown command 'rnu'", "did you mean 'run'?")
        self.refused(["run", "--bacth", "3"], 2, "unknown flag '--bacth'", "did you mean '--batch'?", "ddlbench run --help")
        self.refused(["run", "--bacth=3"], 2, "did you mean '--batch'?")
        self.refused([], 2, "no command")
        self.refused(["list", "modles"], 2, "did you mean 'models'?")
        self.refused(["completion", "basj"], 2, "did you mean 'bash'?")
        self.refused(["export", "--format", "jsno"], 2, "did you mean 'json'?")
        self.refused(["list"], 2)
        self.refused(["run", "--batch"], 2, "--batch")

    def test_keys_and_values(self):
        self.refused(["run", "--set", "bacth=3"], 2, "--set: unknown key 'bacth'", "did you mean 'batch'?")
        self.refused(["run", "--set", "batch"], 2, "--set: no '='")
        self.refused(["run", "--batch", "many"], 2, "--batch: wrong type; got 'many', expected an integer")
        self.refused(["run", "--batch", "0"], 2, "out of range; got '0'")
        self.refused(["run", "--timeout", "10"], 2, "--timeout:", "missing unit", "got '10'", "expected one of: s ms")
        self.refused(["run", "--precision", "fp23"], 2, "got 'fp23'", "did you mean 'fp32'?")
        self.refused(["run", "--workers", "gpu:2"], 2, "unknown device 'gpu'", "got 'gpu:2'")
        self.refused(["run", "--workers", "cpu[fast=2]"], 2, "unknown option 'fast'")
        self.refused(["run", "--workers", "cpu[slow=0.5]"], 2, "out of range")
        self.refused(["run", "--workers", "2", "--strategy", "heterogeneous"], 2, "no shares in 'heterogeneous'")
        self.refused(["run", "--workers", "emulated:v101:8"], 2, "did you mean 'v100'?")
        self.refused(["run", "--batch", "3", "--set", "batch=4"], 2, "given twice")
        self.refused(["run", "--steps", "3", "--epochs", "4"], 2, "--steps: cannot stand beside epochs", "--epochs")

    def test_names_say_where_they_were_given(self):
        self.refused(["run", "--model", "lennet"], 2, "--model:", "'lennet'", "did you mean 'lenet'?")
        self.refused(["run", "--dataset", "fasion-mnist"], 2, "--dataset:", "did you mean 'fashion-mnist'?")
        self.refused(["run", "--transport", "tpc"], 2, "--transport:", "did you mean 'tcp'?")
        self.refused(["run", "--strategy", "dta"], 2, "--strategy:", "did you mean 'data'?")
        self.refused(["run", "--subject", "torch-dpd"], 2, "--subject:", "did you mean 'torch-ddp'?")
        self.refused(["run", "--collective", "rign"], 2, "--collective:", "did you mean 'ring'?")
        self.refused(["run", self.write("x.yaml", "batch: 4\nmodel: lennet\n")], 2, "x.yaml:2:8: model:", "did you mean 'lenet'?")

    def test_what_a_job_cannot_do_says_where_it_was_asked_for(self):
        self.refused(["run", "--workers", "2", "--transport", "inproc"], 2, "--transport:", "got inproc with 2 workers", "expected shm or tcp")
        self.refused(["run", "--workers", "2", "--transport", "tcp[sockets=many]"], 2, "--transport:", "got 'many', expected 1 to 64")
        self.refused(["run", "--workers", "64", "--batch", "32"], 2, "--workers:", "got 64 workers, expected at most 32")
        self.refused(["run", "--strategy", "single", "--workers", "2"], 2, "--strategy:", "2")
        self.refused(["run", "--strategy", "data[bukcet=1MiB]"], 2, "--strategy:", "bukcet", "bucket")
        self.refused(["run", "--collective", "broadcast"], 2, "--collective:", "broadcast")
        self.refused(["run", "--synthetic", "--train-samples", "3", "--workers", "4"], 2, "--workers:", "got 4 workers, expected at most 3")
        self.refused(["run", "--data", "nowhere"], 2, "--data:", "nowhere")
        self.refused(["run", self.write("x.yaml", "batch: 4\nworkers: 8\n")], 2, "x.yaml:2:10: workers:", "expected at most 4")

    def test_files(self):
        self.refused(["run", "none.yaml"], 2, "none.yaml: no such file")
        self.refused(["run", self.write("a.yaml", "model: lenet\nbacth: 3\n")], 2, "a.yaml:2:1: unknown key 'bacth'", "'batch'")
        self.refused(["run", self.write("b.yaml", "batch: 1\nbatch: 2\n")], 2, "b.yaml:2:1: key 'batch' given twice", "b.yaml:1:1")
        self.refused(["run", self.write("c.yaml", "model: lenet\n\tbatch: 2\n")], 2, "c.yaml:2:1: tab")
        self.refused(["run", self.write("d.yaml", "")], 2, "d.yaml: empty")
        self.refused(["run", self.write("e.yaml", "[" * 100000)], 2, "nested too deep")
        self.refused(["run", self.write("f.yaml", "- 1\n")], 2, "f.yaml:1:1:", "expected a mapping")
        self.refused(["run", "studies/first.yaml"], 2, "this is a study", "ddlbench sweep")
        self.refused(["run", "/"], 2, "not a file")

    def test_studies(self):
        self.refused(["sweep", "frist"], 2, "got 'frist'", "did you mean 'first'?")
        self.refused(["sweep", self.write("a.yaml", "study: a\n")], 2, "a study without experiments")
        self.refused(["sweep", self.write("b.yaml", "matrix: [[{bacth: 1}]]\n")], 2, "b.yaml:1:12: unknown key 'bacth'")
        self.refused(["sweep", self.write("c.yaml", "matrix: [[{seed: 1}, {seed: 1}]]\n")], 2, "the same experiment twice")
        self.refused(["sweep", self.write("d.yaml", "matrix: [[{model: lenet}, {model: lennet}]]\n")], 2, "d.yaml:1:35: model:")
        self.refused(["sweep", "first", "--machine", "v100-16gb"], 2, "--predict-only")
        self.refused(["sweep", "first", "--jobs", "slurm"], 6, "unsupported")
        self.refused(["sweep", "first", "--jobs", "cloud"], 2, "got 'cloud'")

    def test_stores(self):
        self.write("broken.db", "this is no database, and long enough to be looked at" * 100)
        for command in (["status"], ["report"], ["export", "latest"], ["resume"]):
            self.refused([*command, "--store", "broken.db"], 1, "broken.db")
            self.refused([*command, "--store", "none.db"], 2, "none.db")
            self.assertFalse(os.path.exists(os.path.join(self.folder, "none.db")))


class Data(CommandLine):
    def document(self, *arguments):
        done = self.run_it(*arguments)
        self.assertIn(done.returncode, (0, 6), done.stderr)
        return json.loads(done.stdout)

    def test_lists(self):
        for kind in KINDS:
            document = self.document("list", kind, "--json")
            self.assertEqual((document["schema"], document["kind"]), ("ddlbench.list/1", kind))
            for item in document["items"]:
                self.assertLessEqual({"name", "available", "reason", "summary"}, set(item))
                self.assertEqual(item["available"], item["reason"] is None, item)
            text = self.run_it("list", kind).stdout
            if document["items"]:
                self.assertIn(document["items"][0]["name"], text)
            else:
                self.assertEqual(text, f"{kind}: none in this version\n")
        models = {item["name"]: item for item in self.document("list", "models", "--json")["items"]}
        for name in ("lenet", "resnet18"):
            for key in ("parameters", "flops", "layers"):
                self.assertGreater(models[name][key], 0)
        self.assertIn("first", [item["name"] for item in self.document("list", "studies", "--json")["items"]])

    def test_doctor_and_env(self):
        doctor = self.document("doctor", "--json")
        self.assertEqual(doctor["schema"], "ddlbench.doctor/1")
        self.assertEqual({check["verdict"] for check in doctor["checks"]} - {"ok", "warn", "fail"}, set())
        self.assertEqual(doctor["usable"], all(check["verdict"] != "fail" for check in doctor["checks"]))
        self.assertEqual(self.run_it("doctor").returncode, 0 if doctor["usable"] else 6)
        # What runs can do without is said too, with what would bring it.
        checks = {check["check"]: check for check in doctor["checks"]}
        for name in "mpi: openmpi,mpi: mpich,mpi: intel,SLURM,transport: nccl,transport: gloo,test fabric".split(","):
            verdict, says = checks[name]["verdict"], checks[name]["says"]
            self.assertIn(verdict, ("ok", "warn"))
            self.assertEqual(verdict == "warn", bool(re.search("not available: .|no --fabric: .|but .", says)), says)
        self.assertEqual(checks["products"]["verdict"] == "ok", "large ones on one thread by OpenBLAS" in checks["products"]["says"])
        for told, code, verdict, words in (("none", 0, "warn", "DDLBENCH_OPENBLAS is none"), ("/no/such/file", 6, "fail", "got '/no/such/file'")):
            done = self.run_it("doctor", "--json", env={**os.environ, "DDLBENCH_OPENBLAS": told})
            self.assertEqual(done.returncode, code if doctor["usable"] else 6)
            products = {check["check"]: check for check in json.loads(done.stdout)["checks"]}["products"]
            self.assertEqual(products["verdict"], verdict)
            self.assertIn(words, products["says"])
        env = self.document("env", "--json")
        self.assertLessEqual({"version", "commit", "dirty", "compiler", "torch", "type"}, set(env["build"]))
        self.assertIn("cpu", env["environment"])
        self.assertIn("build.version", self.run_it("env").stdout)

    def test_doctor_refuses_a_store_that_cannot_be_written(self):
        self.assertEqual(self.run_it("doctor", "--store", "/proc/nowhere/x.db").returncode, 6)

    def test_dry_run_says_where_each_value_comes_from(self):
        self.write("x.yaml", "batch: 32\nsteps: 5\n")
        document = self.document("run", "x.yaml", "--workers", "cpu[threads=2],cpu", "--set", "seed=7", "--no-shuffle", "--dry-run", "--json")
        config, provenance = document["config"], document["provenance"]
        self.assertEqual((config["batch"], provenance["batch"]), (32, "x.yaml:1:8"))
        self.assertEqual((config["seed"], provenance["seed"]), (7, "--set"))
        self.assertEqual((config["workers"], provenance["workers"]), ("cpu[threads=2]:1,cpu:1", "--workers"))
        self.assertEqual((config["shuffle"], config["epochs"], provenance["model"]), (False, None, "default"))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "ddlbench.db")))

    def test_dry_sweep(self):
        document = self.document("sweep", "first", "--dry-run", "--json")
        names = [experiment["case"] for experiment in document["experiments"]]
        self.assertIn("resnet18, 2 workers, tcp", names)
        self.assertEqual(len(names), 6)


    def test_sweep_compares_at_one_global_batch(self):
        study = self.write("unequal.yaml", "matrix:\n  - - {strategy: data, workers: 2, batch: 64}\n    - {strategy: model, workers: 4, batch: 128}\n")
        self.refused(["sweep", study], 2, "unequal.yaml:3:44: batch: what is compared has the same global batch",
                     "got 64 for data with cpu:2 and 128 for model with cpu:4", "--unequal-batch")
        cases = [experiment["case"] for experiment in self.document("sweep", study, "--unequal-batch", "--dry-run", "--json")["experiments"]]
        self.assertEqual(cases, ["lenet, 2 workers, data, batch 64", "lenet, 4 workers, model, batch 128"])
        equal = self.document("sweep", study, "--batch", "64", "--dry-run", "--json")["experiments"]
        self.assertEqual([experiment["case"] for experiment in equal], ["lenet, 2 workers, data", "lenet, 4 workers, model"])


class Terminals(CommandLine):
    def test_completions_can_be_sourced(self):
        script = self.run_it("completion", "bash").stdout
        done = subprocess.run(
            ["bash", "-c", 'set -u; source /dev/stdin; COMP_WORDS=(ddlbench run --bat); COMP_CWORD=2; _ddlbench; echo "${COMPREPLY[@]}";'
             'COMP_WORDS=(ddlbench sw); COMP_CWORD=1; _ddlbench; echo "${COMPREPLY[@]}";'
             'COMP_WORDS=(ddlbench run --precision f); COMP_CWORD=3; _ddlbench; echo "${COMPREPLY[@]}"'],
            input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), ["--batch", "sweep", "fp32 fp16 fp64"])
        for shell in ("zsh", "fish"):
            self.assertIn("sweep", self.run_it("completion", shell).stdout)
            if shutil.which(shell):
                self.write("script", self.run_it("completion", shell).stdout)
                self.assertEqual(subprocess.run([shell, "-n", "script"], cwd=self.folder).returncode, 0)

    def test_man_pages_cover_every_command(self):
        self.assertEqual(self.run_it("man", "--out", "man1").returncode, 0)
        pages = sorted(os.listdir(os.path.join(self.folder, "man1")))
        self.assertEqual(pages, sorted(["ddlbench.1"] + [f"ddlbench-{command}.1" for command in COMMANDS]))
        self.assertIn(".SH EXIT STATUS", self.run_it("man").stdout)
        self.assertIn("learning", self.run_it("man", "run").stdout)

    def doctor_on_a_terminal(self, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"} | variables
        mine, its = pty.openpty()
        process = subprocess.Popen([BINARY, "doctor"], stdout=its, stderr=its, env=environment, cwd=self.folder)
        os.close(its)
        output = b""
        while True:
            try:
                piece = os.read(mine, 4096)
            except OSError:
                break
            if not piece:
                break
            output += piece
        process.wait(60)
        os.close(mine)
        return output

    def test_colours_only_where_wanted(self):
        self.assertIn(b"\x1b[", self.doctor_on_a_terminal())
        self.assertNotIn(b"\x1b[", self.doctor_on_a_terminal(NO_COLOR="1"))
        self.assertNotIn(b"\x1b[", self.doctor_on_a_terminal(TERM="dumb"))
        self.assertNotIn("\x1b[", self.run_it("doctor").stdout)

    def test_a_reader_that_goes_away_is_no_error(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([BINARY, "list", "models"], stdout=write, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_closed_descriptors_are_not_given_to_files(self):
        done = subprocess.run(["bash", "-c", f"{shlex.quote(BINARY)} list models >&-"], stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^ddlbench: error: .*standard output.*\n$")
        self.assertEqual(subprocess.run(["bash", "-c", f"{shlex.quote(BINARY)} list models <&- >/dev/null 2>&-"], cwd=self.folder).returncode, 0)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, "list", "models"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)

    def test_bytes_that_are_no_text_are_refused(self):
        done = subprocess.run([BINARY, "run", "--data", b"\xff\xfe\n"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(re.fullmatch(rb"ddlbench: error: [ -~]*\n", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
