"""Many emulated workers on two cores: how late their waits end. Alone on the machine, since they need all of it.

usage: emulated_many_test.py PATH-OF-DDLBENCH [unittest arguments]
"""
import statistics
import sys
import unittest

from emulated_test import EmulatedCase, Sleeper


class Many(EmulatedCase):
    def many_workers(self, workers):
        # So slow that what the executor does for each, half a millisecond of a core, is little beside what it waits.
        with Sleeper() as sleeper:
            record = self.record("--strategy", "data", "--workers", f"emulated:k80[slow=400]:{workers}", "--model", "lenet", "--dataset", "fashion-mnist", "--synthetic", "--train-samples", 640,
                                 "--test-samples", 32, "--batch", 64, "--steps", 10)
        self.check(record, workers)
        told = [rank["emulation"] for rank in record["ranks"]]
        shares, late = [each["late_share"] for each in told], statistics.median(each["late_us"]["median"] for each in told)
        print(f"{workers} workers: late by {100 * max(shares):.2f} % at most, the median wait by {late:.0f} us, sleepers {sleeper.median():.0f} us", file=sys.stderr)
        # The error is told of every rank, and small: what waits end late by is not added up.
        self.assertGreater(min(each["waits"] for each in told), 0)
        # All wake up at once and do half a millisecond each on two cores: the more there are, the later the median has one.
        self.assertLess(late, max(1000, 60 * workers, 2 * sleeper.median()))
        if sleeper.median() < 500:
            self.assertLess(max(shares), 0.1)
            self.assertGreater(min(shares), -0.02)

    def test_sixteen(self):
        self.many_workers(16)

    def test_thirty_two(self):
        self.many_workers(32)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
