"""Fits a model's constants to some of its rows: few runs of the model, each of all rows.

The logarithm of what is predicted is taken for linear in the logarithms of the constants. Slopes are differences between runs around the start, two for each constant, and shared by all fits that begin there, since a run predicts every row. The least mean absolute
error is then found by reweighted least squares (Schlossmacher 1973), and counts only where a run with these constants has a smaller error of the rows that are fitted to: else half the way, then a quarter. Models that go in steps (Horovod's, by its cycles of 5 ms) take
slopes over a wider way, and a search constant by constant afterwards. Constants stay within a factor of `REACH` of their start.
"""
import math

import numpy

from published import errors_pct

WAY = 1.03       # a factor on a constant, up and down: differences over less are lost where a model has corners
REACH = 3.0
NUDGE = 1.15     # a factor on a constant, where constants are searched one by one
ROUNDS = 3
FLOOR = 0.003    # of an error: below that it counts as a square
DAMPING = 1e-3   # holds constants that rows say next to nothing about
NOTHING = 1e-4   # a constant that moves no row by so much of its own change is not known by them


def one_digit(value):
    """A constant as somebody would guess it who does not know better."""
    if value == 0:
        return 0.0
    power = 10 ** math.floor(math.log10(abs(value)))
    return round(value / power) * power


class Model:
    """`run(values)`: predictions of all rows, in the unit of `measured`. `most`: by constant the largest that makes sense. `way`: of the differences that slopes are; `sweeps`: over all constants, one by one, at the end of a fit."""

    def __init__(self, run, measured, most, way=WAY, sweeps=0):
        self.run, self.measured, self.most, self.way, self.sweeps = run, numpy.asarray(measured, float), numpy.asarray(most, float), way, sweeps
        self.runs, self.known, self.slopes_at = 0, {}, {}

    def predict(self, values):
        key = tuple(values)
        if key not in self.known:
            self.runs += 1
            self.known[key] = numpy.asarray(self.run(values), float)
        return self.known[key]

    def slopes(self, start):
        key = tuple(start)
        if key not in self.slopes_at:
            columns = []
            for number, value in enumerate(start):
                low, high = numpy.array(start, float), numpy.array(start, float)
                low[number], high[number] = value / self.way, min(value * self.way, self.most[number])
                columns.append(numpy.log(self.predict(high) / self.predict(low)) / math.log(high[number] / low[number]))
            self.slopes_at[key] = numpy.array(columns).T
        return self.slopes_at[key]

    def error(self, values, weights):
        return float((weights * abs(errors_pct(self.predict(values), self.measured))).sum() / weights.sum())

    def unknown(self, start, weights):
        """Constants that the rows which are fitted to say nothing about: they stay at their start."""
        return [number for number, column in enumerate(self.slopes(start).T) if abs(column[weights > 0]).max() < NOTHING]


def least_absolute(slopes, residuals, weights):
    step = numpy.zeros(slopes.shape[1])
    for _ in range(30):
        each = weights / weights.sum() / numpy.maximum(abs(residuals + slopes @ step), FLOOR)
        step = numpy.linalg.solve(slopes.T @ (each[:, None] * slopes) + DAMPING * numpy.eye(len(step)), -slopes.T @ (each * residuals))
    return step


def fit(model, start, weights):
    """Constants with the least weighted mean absolute error in %, from `start` on; rows with a weight of 0 have no part."""
    start, weights = numpy.asarray(start, float), numpy.asarray(weights, float)
    low, high = start / REACH, numpy.minimum(start * REACH, model.most)
    slopes, values, best = model.slopes(start), start, model.error(start, weights)
    for _ in range(ROUNDS):
        step = least_absolute(slopes, numpy.log(model.predict(values) / model.measured), weights)
        for part in (1, 0.5, 0.25):
            trial = numpy.clip(values * numpy.exp(numpy.clip(part * step, -1, 1)), low, high)
            error = model.error(trial, weights)
            if error < best - 1e-9:
                gained, values, best = best - error, trial, error
                break
        else:
            break
        if gained < 0.01 * best:
            break
    return one_by_one(model, values, low, high, weights)


def one_by_one(model, values, low, high, weights):
    best = model.error(values, weights)
    for _ in range(model.sweeps):
        for number in range(len(values)):
            for factor in (NUDGE, 1 / NUDGE):
                trial = values.copy()
                trial[number] = min(max(trial[number] * factor, low[number]), high[number])
                if (error := model.error(trial, weights)) < best - 1e-9:
                    values, best = trial, error
                    break
    return values
