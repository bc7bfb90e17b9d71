"""Our orders of micro-batches against those of torch.distributed.pipelining: the same actions on each worker, or, where they differ on
purpose, no more time.

    pipeline_schedules_test.py ORDER_DUMP, in a Python that has torch
"""
import itertools
import subprocess
import sys
import types
import unittest

from torch.distributed.pipelining import schedules as torch_schedules

DUMP = sys.argv[1]

WORKERS = [1, 2, 3, 4, 8]
MICRO_BATCHES = [1, 2, 3, 4, 5, 8, 16, 24]
COSTS = [(1, 1, 1), (1, 1, 0.5), (1, 2, 1), (2, 1, 1), (1, 1, 2), (1, 3, 2)]


class Order:
    """The worker of each stage, and each worker's actions as words: 2F5 is the forward of micro-batch 5 through stage 2."""

    def __init__(self, placement, actions):
        self.placement, self.actions = placement, actions

    def seconds(self, costs):
        text = "\n".join(" ".join(map(str, line)) for line in [self.placement, *self.actions]) + "\n"
        done = subprocess.run([DUMP, "time", *map(str, costs)], input=text, capture_output=True, text=True, check=True)
        return float(done.stdout)


def ours(name, workers, micro_batches, chunks):
    done = subprocess.run([DUMP, "order", name, str(workers), str(micro_batches), str(chunks)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return Order([int(word) for word in lines[0]], lines[1:])


def words(actions):
    """PyTorch's list of one rank, without its waits; a pair that overlaps is its forward, then its backward. It also plans reduction of
    gradients, which is no pass."""
    letters = {torch_schedules.FORWARD: "F", torch_schedules.FULL_BACKWARD: "B",
               torch_schedules.BACKWARD_INPUT: "I", torch_schedules.BACKWARD_WEIGHT: "W"}
    found = []
    for action in actions:
        for part in (action.sub_actions or (action,)) if action is not None else ():
            if part.computation_type in letters:
                found.append(f"{part.stage_index}{letters[part.computation_type]}{part.microbatch_index}")
    return found


def stub(workers, chunks, micro_batches):
    """What PyTorch's planning reads of a schedule: it runs without process groups and stages of modules."""
    stages = [types.SimpleNamespace(group_size=workers, group_rank=0) for _ in range(chunks)]
    return types.SimpleNamespace(pp_group_size=workers, _num_stages=workers * chunks, num_stages=workers * chunks, _stages=stages,
                                 _n_microbatches=micro_batches, n_local_stages=chunks,
                                 microbatches_per_round=micro_batches // max(1, micro_batches // workers))


def single(schedule):
    """Of the schedules with one stage a rank."""
    def make(workers, micro_batches, chunks):
        order = schedule._get_pipeline_order(stub(workers, chunks, micro_batches))
        return Order(list(range(workers)), [words(order[rank]) for rank in range(workers)])
    return make


def multi(schedule, style):
    def make(workers, micro_batches, chunks):
        plan = stub(workers, chunks, micro_batches)
        placement = torch_schedules.generate_stage_to_rank_mapping(workers, workers * chunks, style=style)
        return Order([placement[stage] for stage in range(workers * chunks)],
                     [words(schedule._calculate_single_rank_operations(plan, rank)) for rank in range(workers)])
    return make


def zero_bubble_one_chunk(workers, micro_batches, chunks):
    """ScheduleInterleavedZeroBubble (ZB1P) with one stage a rank: the paper's ZB-H1, but for waits that PyTorch plans."""
    return multi(torch_schedules.ScheduleInterleavedZeroBubble, "loop")(workers, micro_batches, chunks)


def shapes(chunks, allowed=lambda workers, micro_batches: True):
    return [(p, m, v) for p, m, v in itertools.product(WORKERS, MICRO_BATCHES, chunks) if allowed(p, m)]


class PipelineSchedules(unittest.TestCase):
    def assert_same(self, name, theirs, cases):
        self.assertGreater(len(cases), 10)
        for workers, micro_batches, chunks in cases:
            with self.subTest(name, workers=workers, micro_batches=micro_batches, chunks=chunks):
                expected, got = theirs(workers, micro_batches, chunks), ours(name, workers, micro_batches, chunks)
                self.assertEqual(got.placement, expected.placement)
                self.assertEqual(got.actions, expected.actions)

    def test_gpipe(self):
        self.assert_same("gpipe", single(torch_schedules.ScheduleGPipe), shapes([1]))

    def test_1f1b(self):
        # With fewer micro-batches than forwards to warm up, PyTorch's list has forwards of micro-batches that there are not.
        self.assert_same("1f1b", single(torch_schedules.Schedule1F1B), shapes([1], lambda p, m: m >= p))

    def test_interleaved_1f1b(self):
        self.assert_same("interleaved-1f1b", multi(torch_schedules.ScheduleInterleaved1F1B, "loop"), shapes([2, 3], lambda p, m: m % p == 0))

    def test_looped_bfs(self):
        self.assert_same("looped-bfs", multi(torch_schedules.ScheduleLoopedBFS, "loop"), shapes([1, 2, 3]))

    def test_zbv(self):
        self.assert_same("zbv", multi(torch_schedules.ScheduleZBVZeroBubble, "v"), shapes([2]))

    def test_dualpipev(self):
        # PyTorch takes no fewer micro-batches than stages; of ours, then, the first ones of an order for as many are what is left.
        self.assert_same("dualpipev", multi(torch_schedules.ScheduleDualPipeV, "v"), shapes([2], lambda p, m: m >= 2 * p))

    def test_zb_h1_takes_no_longer_than_zb1p(self):
        for workers, micro_batches, chunks in shapes([1], lambda p, m: m >= p):
            for costs in COSTS:
                with self.subTest(workers=workers, micro_batches=micro_batches, costs=costs):
                    theirs = zero_bubble_one_chunk(workers, micro_batches, chunks)
                    self.assertLessEqual(ours("zb-h1", workers, micro_batches, chunks).seconds(costs), theirs.seconds(costs))

    def test_it_can_fail(self):
        self.assertNotEqual(ours("gpipe", 2, 2, 1).actions, single(torch_schedules.Schedule1F1B)(2, 2, 1).actions)
        with self.assertRaises(subprocess.CalledProcessError):
            ours("interleaved-1f1b", 2, 3, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
