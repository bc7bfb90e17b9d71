"""Fits a model's constants to some of its rows: few runs of the model, each of all rows.

The logarithm of what is predicted is taken for linear in the logarithms of the constants. Slopes are differences between runs at the start, one for each constant, and shared by all fits that begin there, since a run predicts every row. The least mean absolute
error is then found by reweighted least squares (Schlossmacher 1973), and counts only where a run with these constants has a smaller error of the rows that are fitted to: else half the way. Each run mends the slopes of its fit (Broyden 1965). Models that go in steps (Horovod's, by its cycles of 5 ms) take
slopes over a wider way. Constants stay within a factor of `REACH` of their start.
"""
import math

import numpy

from published import errors_pct

WAY = 1.03       # a factor on a constant: differences over less are lost where a model has corners
REACH = 3.0
ROUNDS = 8
ENOUGH = 0.003   # of the error: a fit that gains less is at its end
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
    """`run(values)`: predictions of all rows, in the unit of `measured`. `most`: by constant the largest that makes sense. `way`: the factor of the differences that slopes are."""

    def __init__(self, run, measured, most, way=WAY):
        self.run, self.measured, self.most, self.way = run, numpy.asarray(measured, float), numpy.asarray(most, float), way
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
            here, columns = numpy.log(self.predict(start)), []
            for number, value in enumerate(start):
                # Away from a bound.
                factor = self.way if value * self.way <= self.most[number] else 1 / self.way
                away = numpy.array(start, float)
                away[number] = value * factor
                columns.append((numpy.log(self.predict(away)) - here) / math.log(factor))
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
    slopes, values, best, part = model.slopes(start).copy(), start, model.error(start, weights), 1.0
    for _ in range(ROUNDS):
        step = part * least_absolute(slopes, numpy.log(model.predict(values) / model.measured), weights)
        trial = numpy.clip(values * numpy.exp(numpy.clip(step, -1, 1)), low, high)
        moved = numpy.log(trial / values)
        if moved @ moved < 1e-12:
            break
        slopes += numpy.outer(numpy.log(model.predict(trial) / model.predict(values)) - slopes @ moved, moved) / (moved @ moved)
        error = model.error(trial, weights)
        if error < best:
            enough = best - error < ENOUGH * best
            values, best, part = trial, error, min(1.0, 2 * part)
            if enough:
                break
        elif (part := part / 2) < 0.2:
            break
    return values
