"""Holds the tables of bench/training.py to what was measured: on runs that are made up, whose ratios, shares and verdicts are known.

usage: training_table_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import os
import pathlib
import sys
import types
import unittest
from unittest import mock

BINARY = pathlib.Path(sys.argv[1]).resolve()
os.environ["DDLBENCH"] = str(BINARY)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import training  # noqa: E402
import training_cases  # noqa: E402
import training_table as table  # noqa: E402


def run(number, ms, memory=100, **more):
    return {"round": number, "step_ms": [ms] * 5, "cpu_ms": [ms] * 5, "peak_memory_bytes": [memory], "exposed": 0.01, "waited": 0.02, "pace_s": 1.0, "slowed": 0.0, "stolen": 0.0, "load": 1.0, "version": "1", **more}


def row(network, workers, arms, precision="fp32", failed=None, missing=None):
    return {"network": network, "precision": precision, "workers": workers, "runs": arms, "failed": failed or {}, "missing": missing or {}, "forms": {}, "date": "2026-01-01", "machine": {"environment": {"cpu": {"model": "x", "isa": ["avx2", "avx512f"], "mhz": 2596.4}}}}


def rounds(*times, **more):
    return [run(number, ms, **more) for number, ms in enumerate(times)]


class Verdicts(unittest.TestCase):
    def test_theirs_over_ours_round_by_round(self):
        rows = table.Rows([row("resnet18", 1, {"ddlbench": rounds(100, 200), "PyTorch": rounds(130, 260)})])
        self.assertRegex(table.against(rows, "resnet18", "fp32", 1, "PyTorch", 1.15), r"^1\.30 \[1\.30 to 1\.30\], CPU 1\.30; goal ≥ 1\.15: \*\*met\*\*$")
        self.assertTrue(table.against(rows, "resnet18", "fp32", 1, "PyTorch", 1.31).endswith("**missed**"))
        self.assertEqual(table.against(rows, "resnet18", "fp32", 1, "TensorFlow", 1), "not measured: not asked for")

    def test_a_round_that_one_of_them_lacks_has_no_ratio(self):
        rows = table.Rows([row("resnet18", 1, {"ddlbench": rounds(100, 100), "PyTorch": [run(1, 150)]})])
        self.assertTrue(table.against(rows, "resnet18", "fp32", 1, "PyTorch", 1).startswith("1.50 "))

    def test_a_goal_within_the_interval_is_told_to_be_so(self):
        rows = table.Rows([row("gpt", 1, {"ddlbench": rounds(100, 100, 100), "TensorFlow": rounds(90, 99, 110)})])
        self.assertIn("**missed**, not told apart from it", table.against(rows, "gpt", "fp32", 1, "TensorFlow", 1.0))
        beside = table.Rows([row("resnet18", 2, {"ddlbench": [run(0, 100, exposed=0.02), run(1, 100, exposed=0.05)], "ddlbench, one worker": rounds(90, 99)})])
        self.assertTrue(table.efficiency(beside, "resnet18", "fp32").endswith("**missed**, not told apart from it"))
        self.assertTrue(table.exposed(beside, "resnet18", "fp32").endswith("**missed**, not told apart from it"))

    def test_one_round_is_told_to_be_one(self):
        rows = table.Rows([row("resnet18", 2, {"ddlbench": rounds(100), "ddlbench, one worker": rounds(96), "DDP": rounds(150, 150)})])
        for told in (table.against(rows, "resnet18", "fp32", 2, "DDP", 1.2), table.efficiency(rows, "resnet18", "fp32"), table.exposed(rows, "resnet18", "fp32")):
            self.assertTrue(told.endswith("**met**, one round"), told)

    def test_the_processor_is_told_by_what_it_multiplies_with(self):
        self.assertIn("; x, 2,596 MHz, avx512f; ", table.about([row("gpt", 1, {"ddlbench": rounds(100)})]))
        self.assertEqual(table.processor({}), "a processor that does not say")

    def test_why_an_arm_is_not_there(self):
        rows = table.Rows([row("gpt", 2, {"ddlbench": rounds(1)}, failed={"DDP": "killed"}, missing={"MirroredStrategy": "no TensorFlow"})])
        self.assertEqual(table.against(rows, "gpt", "fp32", 2, "DDP", 1.2), "not measured: failed: killed")
        self.assertEqual(table.against_strategies(rows, "gpt", "fp32"), "not measured: no TensorFlow")

    def test_the_better_strategy_counts(self):
        rows = table.Rows([row("gpt", 2, {"ddlbench": rounds(100), "MirroredStrategy": rounds(150), "MultiWorkerMirrored": rounds(130)})])
        self.assertTrue(table.against_strategies(rows, "gpt", "fp32").startswith("MultiWorkerMirrored: 1.30 "))

    def test_efficiency_exposed_communication_and_memory(self):
        rows = table.Rows([row("resnet18", 2, {"ddlbench": rounds(100, 100, memory=90), "ddlbench, one worker": rounds(96, 96), "DDP": rounds(150, memory=100)})])
        self.assertRegex(table.efficiency(rows, "resnet18", "fp32"), r"^0\.960 .*goal ≥ 0\.95: \*\*met\*\*$")
        self.assertEqual(table.exposed(rows, "resnet18", "fp32"), "1.0%, waiting for the other 2.0%; goal ≤ 3%: **met**")
        self.assertEqual(table.memory(rows, "resnet18", "fp32", 2, "DDP"), "0.90; goal ≤ 1: **met**")
        self.assertTrue(table.efficiency(table.Rows([row("vgg11", 2, {"ddlbench": rounds(100), "ddlbench, one worker": rounds(90)})]), "vgg11", "fp32").endswith("no goal"))

    def test_what_waits_for_bytes_has_the_higher_goal(self):
        def rows(ddp):
            return table.Rows([row("resnet50", 1, {"PyTorch": rounds(100)}), row("resnet50", 2, {"ddlbench": rounds(100), "DDP": rounds(ddp)})])

        self.assertAlmostEqual(table.communication_share(rows(125), "resnet50", "fp32"), 0.2)
        self.assertTrue(training_cases.communicates("resnet50", 0.2))
        self.assertFalse(training_cases.communicates("resnet50", 0.15))
        self.assertFalse(training_cases.communicates("resnet50", None))
        self.assertTrue(training_cases.communicates("alexnet", None), "whatever its share is here")
        self.assertEqual([training_cases.goal_against_pytorch(training_cases.CASES[name]) for name in ("smallcnn", "resnet50")], [1.8, 1.15])

    def test_what_is_communication_is_told_by_the_same_rounds(self):
        rows = table.Rows([row("resnet50", 1, {"PyTorch": rounds(140)}), row("resnet50", 2, {"ddlbench": rounds(100, 100), "DDP": rounds(125, 250), "PyTorch, one worker": rounds(100, 200)})])
        self.assertAlmostEqual(table.communication_share(rows, "resnet50", "fp32"), 0.2)

    def test_the_newest_of_several_counts(self):
        rows = table.Rows([row("gpt", 1, {"ddlbench": rounds(100), "PyTorch": rounds(200)}), row("gpt", 1, {"ddlbench": rounds(100), "PyTorch": rounds(110)}), row("gpt", 1, {"ddlbench": rounds(100)})])
        self.assertTrue(table.against(rows, "gpt", "fp32", 1, "PyTorch", 1).startswith("1.10 "))

    def forms(self, times):
        """What is taken of forms whose runs take these, one after the other; None is a failure. And how many runs each had."""
        left, had = {form: list(each) for form, each in times.items()}, dict.fromkeys(times, 0)

        def one(form, limit):
            had[form] += 1
            took = left[form].pop(0)
            if took is None:
                raise training.Failed("killed")
            return {"cpu_ms": [float(took)], "step_ms": [float(took)]}

        return training.faster("it", list(times), one, 300), had

    def test_a_peers_form_is_taken_by_the_median_of_runs_in_turns(self):
        # The first run of the faster form was disturbed.
        found, had = self.forms({"as it comes": [100, 101, 102], "channels last": [140, 80, 81]})
        self.assertEqual((found["taken"], found["tried"], had), ("channels last", {"as it comes": 101, "channels last": 81}, {"as it comes": 3, "channels last": 3}))
        # What is hopeless, or fails, has no other run.
        found, had = self.forms({"as it comes": [100, 101, 102], "XLA": [1000], "oneDNN": [None]})
        self.assertEqual((found["taken"], found["tried"]["oneDNN"], had), ("as it comes", "killed", {"as it comes": 3, "XLA": 1, "oneDNN": 1}))
        self.assertIsNone(self.forms({"as it comes": [None]})[0]["taken"])

    def test_ddp_has_a_form_of_its_own(self):
        chosen = types.SimpleNamespace(form={}, peers=["pytorch"], workers=[1, 2], threads=1, most=300, seconds=1)
        case = {**training_cases.CASES["resnet50"], "threads": 1}

        def pytorch(case, workers, steps, precision, limit, form, environment=None):
            last = form == training.training_arms.PYTORCH_FORMS["channels last"]
            took = 100.0 if last == (workers == 1) else 120.0
            return {"step_ms": [took], "cpu_ms": [took], "form": form}

        with mock.patch.object(training.training_arms, "pytorch", pytorch):
            forms = training.forms_of(case, "fp32", chosen)
            self.assertEqual({arm: form["taken"] for arm, form in forms.items()}, {"PyTorch": "channels last", "DDP": "as it comes"})
            # What is told is tried alone, though another is faster.
            chosen.form = {"DDP": "channels last"}
            told = training.forms_of(case, "fp32", chosen)
            self.assertEqual((told["DDP"]["taken"], list(told["DDP"]["tried"]), len(told["PyTorch"]["tried"])), ("channels last", ["channels last"], 2))
            chosen.form = {"DDP": "sideways"}
            with self.assertRaisesRegex(SystemExit, "--form DDP=sideways; expected one of as it comes, channels last"):
                training.forms_of(case, "fp32", chosen)
            arms, missing = training.arms_of(case, 2, "fp32", 5, forms, chosen)
            self.assertEqual(missing, {})
            named = {arm: next(name for name, words in training.training_arms.PYTORCH_FORMS.items() if words == arms[arm]()["form"]) for arm in ("DDP", "PyTorch, one worker")}
            self.assertEqual(named, {"DDP": "as it comes", "PyTorch, one worker": "channels last"})

    def test_disturbed_runs_are_told(self):
        calm = table.Rows([row("gpt", 1, {"ddlbench": rounds(100)})])
        loud = table.Rows([row("gpt", 1, {"ddlbench": rounds(100, slowed=0.2)})])
        self.assertEqual(table.disturbed(calm, "gpt", "fp32", 1), "0%, stolen 0.0%, load 1.0")
        self.assertEqual(table.disturbed(loud, "gpt", "fp32", 1), "**20%, stolen 0.0%, load 1.0**")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
