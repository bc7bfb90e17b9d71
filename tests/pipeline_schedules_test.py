"""Our orders of micro-batches against those of torch.distributed.pipelining: stage by stage on the same worker, and on each worker the
same actions in the same order, wherever PyTorch takes the shape. PyTorch has neither PipeDream's asynchronous order.

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


class Order:
    """The worker of each stage, and each worker's actions as words: 2F5 is the forward of micro-batch 5 through stage 2."""

    def __init__(self, placement, actions):
        self.placement, self.actions = placement, actions


def ours(name, workers, micro_batches, chunks):
    done = subprocess.run([DUMP, name, str(workers), str(micro_batches), str(chunks)], capture_output=True, text=True, check=True)
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


class RecordingStage:
    """A stage that computes and sends nothing, and keeps what it is told to do."""

    is_last = False

    def __init__(self, index):
        self.stage_index, self.recorded = index, []
        self.get_fwd_recv_ops = self.get_fwd_send_ops = self.get_bwd_recv_ops = self.get_bwd_send_ops = lambda micro_batch: []

    def forward_one_chunk(self, micro_batch, *args, **kwargs):
        self.recorded.append(f"{self.stage_index}F{micro_batch}")

    def backward_one_chunk(self, micro_batch, *args, **kwargs):
        self.recorded.append(f"{self.stage_index}B{micro_batch}")

    def perform_reduce_grad(self, scale):
        pass


def single(schedule):
    """Of the schedules with one stage a rank: what each does, recorded. (The list that Schedule1F1B has for display is not what it does:
    in PyTorch 2.13 that of the last rank begins with micro-batch 1 and ends with one that there is not.)"""
    def actions_of(rank, workers, micro_batches):
        stage, plan = RecordingStage(rank), schedule.__new__(schedule)
        nothing = [None] * micro_batches
        plan.__dict__.update(_stage=stage, _num_stages=workers, _n_microbatches=micro_batches, _loss_fn=None, _internal_losses=[],
                             scale_grads=False, _initialize_stage=lambda *args: None, _check_inputs=lambda *args: (nothing, nothing))
        plan._step_microbatches()
        return stage.recorded

    def make(workers, micro_batches, chunks):
        return Order(list(range(workers)), [actions_of(rank, workers, micro_batches) for rank in range(workers)])
    return make


def multi(schedule, style):
    def make(workers, micro_batches, chunks):
        plan = stub(workers, chunks, micro_batches)
        placement = torch_schedules.generate_stage_to_rank_mapping(workers, workers * chunks, style=style)
        return Order([placement[stage] for stage in range(workers * chunks)],
                     [words(schedule._calculate_single_rank_operations(plan, rank)) for rank in range(workers)])
    return make


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
        self.assert_same("1f1b", single(torch_schedules.Schedule1F1B), shapes([1]))

    def test_interleaved_1f1b(self):
        self.assert_same("interleaved-1f1b", multi(torch_schedules.ScheduleInterleaved1F1B, "loop"), shapes([2, 3], lambda p, m: m % p == 0))

    def test_looped_bfs(self):
        self.assert_same("looped-bfs", multi(torch_schedules.ScheduleLoopedBFS, "loop"), shapes([1, 2, 3]))

    def test_zbv(self):
        self.assert_same("zbv", multi(torch_schedules.ScheduleZBVZeroBubble, "v"), shapes([2]))

    def test_dualpipev(self):
        # PyTorch takes no fewer micro-batches than stages; ours then is an order for as many with the first ones left.
        self.assert_same("dualpipev", multi(torch_schedules.ScheduleDualPipeV, "v"), shapes([2], lambda p, m: m >= 2 * p))

    def test_zb_h1(self):
        # PyTorch has the paper's ZB1P over several stages a worker; over one it is ZB-H1.
        self.assert_same("zb-h1", multi(torch_schedules.ScheduleInterleavedZeroBubble, "loop"), shapes([1]))

    def test_it_can_fail(self):
        self.assertNotEqual(ours("gpipe", 2, 2, 1).actions, single(torch_schedules.Schedule1F1B)(2, 2, 1).actions)
        with self.assertRaises(subprocess.CalledProcessError):
            ours("interleaved-1f1b", 2, 3, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
