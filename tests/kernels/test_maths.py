"""The scalar formulas, against exact arithmetic and pinned bits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import naive
import numpy as np
import pytest
from scipy.special import erfcx

from hornbeam.kernels import maths

# Bits that must not change between processors, nor without the compiler.
PINNED = {
    maths.exp: {
        0.0: "0x1.0000000000000p+0",
        1.0: "0x1.5bf0a8b14576ap+1",
        0.1: "0x1.1aec7b35a00d4p+0",
        -0.1: "0x1.cf46d99d52b3ap-1",
        -708.0: "0x1.7c8ab2288c9acp-1022",
        709.0: "0x1.d422d2be5dc9bp+1022",
    },
    maths.log: {
        1.0: "0x0.0p+0",
        2.0: "0x1.62e42fefa39efp-1",
        0.1: "-0x1.26bb1bbb55515p+1",
        1e-308: "-0x1.625bf487be2f1p+9",
        1e308: "0x1.62991d5d62a5ep+9",
        0.9999999999999999: "-0x1.0000000000000p-53",
    },
    maths.sigmoid: {
        0.0: "0x1.0000000000000p-1",
        1.0: "0x1.764d4f5d5a2bdp-1",
        -0.1: "0x1.e66bdb1aca090p-2",
        -708.0: "0x1.7c8ab2288c9acp-1022",
        40.0: "0x1.0000000000000p+0",
    },
}


@pytest.mark.parametrize("low", [0.0, -1.0, -37.0])
def test_mills_ratios(low):
    points = np.random.default_rng(0).uniform(low, low + 1, 500)
    points = [*points, low, 0.0, *np.geomspace(1e-3, 1e9, 300)]
    for x in map(float, points):
        exact = math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        rel = 3e-14 if x >= 0 else 1e-12
        assert maths.mills_ratio(x) == pytest.approx(exact, rel=rel)


def ulps(value, exact):
    """Return how many units in the last place `value` is from `exact`."""
    return abs(Decimal(value) - exact) / Decimal(math.ulp(float(exact)))


@pytest.fixture(autouse=True)
def _precision():
    with localcontext() as context:
        context.prec = 40
        yield


@pytest.mark.parametrize(
    ("low", "high"), [(-708, 709), (-40, 40), (-1, 1), (-1e-9, 1e-9)]
)
def test_exp_is_accurate_to_one_ulp(low, high):
    points = [*np.random.default_rng(0).uniform(low, high, 400), low, high]
    for x in map(float, points):
        assert ulps(float(maths.exp(x)), Decimal(x).exp()) < 1, x


def test_exp_is_clipped_to_its_range():
    for x in (-709.0, -1e300, -math.inf):
        assert maths.exp(x) == maths.exp(-708.0) > 0.0
    for x in (710.0, 1e300, math.inf):
        assert maths.exp(x) == maths.exp(709.0) < math.inf


@pytest.mark.parametrize(
    ("low", "high"), [(-307.6, 308.2), (-1, 1), (-0.01, 0.01), (-1e-9, 1e-9)]
)
def test_log_is_accurate_to_two_ulps(low, high):
    powers = np.random.default_rng(0).uniform(low, high, 400)
    for x in map(float, [*10.0**powers, math.sqrt(0.5), math.sqrt(2.0), 10.0**low]):
        assert ulps(float(maths.log(x)), Decimal(x).ln()) < 2, x


def test_log_at_both_ends_of_the_normal_floats():
    for x in (np.finfo(float).tiny, np.finfo(float).max):
        assert ulps(float(maths.log(float(x))), Decimal(float(x)).ln()) < 2


def test_log_gamma():
    for x in (1e-3, 0.5, 1.0, 1.5, 2.0, 7.999, 8.0, 8.001, 30.0, 1e3, 1e9):
        exact = math.lgamma(x)
        assert maths.log_gamma(x) == pytest.approx(exact, rel=1e-14, abs=2e-14), x


@pytest.mark.parametrize("x", [-0.999, -1e-3, -1e-17, 1e-300, 3e-9, 1e-4, 0.7, 1e9])
def test_log1p_is_accurate_near_zero(x):
    assert maths.log1p(x) == pytest.approx(math.log1p(x), rel=1e-15)


@pytest.mark.parametrize("dispersion", [1e-12, 1e-6, 1e-3, 0.1, 1.0, 7.0, 1e3, 1e8])
def test_sums_over_counts(dispersion):
    for count in (0, 1, 2, 15, 16, 17, 18, 100, 5000):
        logs = [math.log1p(dispersion * j) for j in range(count)]
        found = maths.rising_log(float(count), dispersion)
        assert found == pytest.approx(math.fsum(logs), rel=1e-12, abs=1e-15 * count)
        shares = [1 / (1 + dispersion * j) for j in range(count)]
        found = maths.sum_of_shares(float(count), dispersion)
        assert found == pytest.approx(math.fsum(shares), rel=1e-14)


def test_sigmoid():
    for x in map(float, np.random.default_rng(0).uniform(-700, 40, 200)):
        exact = 1 / (1 + (-Decimal(x)).exp())
        assert ulps(float(maths.sigmoid(x)), exact) < 4, x
    assert maths.sigmoid(1e9) == 1.0
    assert 0.0 < maths.sigmoid(-1e9) < 1e-300


@pytest.mark.parametrize(
    ("function", "x", "bits"),
    [(f, x, bits) for f, values in PINNED.items() for x, bits in values.items()],
)
def test_bits(function, x, bits):
    assert float(function(x)).hex() == bits


def philox(counter, key):
    """Call `maths.philox` with the words of the published test vectors."""
    word = [np.uint64(value) for value in (*counter, *key)]
    half = np.uint64(32)
    return tuple(
        map(
            int,
            maths.philox(
                word[0] | word[1] << half, word[2], word[3], word[4] | word[5] << half
            ),
        )
    )


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_vectors(counter, key, words):
    counter, key, words = (
        tuple(int(word, 16) for word in text.split()) for text in (counter, key, words)
    )
    assert naive.philox(counter, key) == words
    assert philox(counter, key) == words


def test_philox_equals_the_reference():
    words = np.random.default_rng(0).integers(0, 2**32, (50, 6)).tolist()
    for word in words:
        assert philox(word[:4], word[4:]) == naive.philox(word[:4], word[4:])


def test_soft_threshold():
    assert maths.soft_threshold(3.0, 1.0) == 2.0
    assert maths.soft_threshold(-3.0, 1.0) == -2.0
    assert maths.soft_threshold(0.5, 1.0) == maths.soft_threshold(-0.5, 1.0) == 0.0
    assert maths.soft_threshold(-0.5, 0.0) == -0.5


@pytest.mark.parametrize("max_delta_step", [0.0, 0.7])
@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_leaf_weight_and_gain(alpha, max_delta_step):
    rng = np.random.default_rng(0)
    for g, h in zip(rng.normal(0, 5, 50), rng.uniform(0.01, 9, 50), strict=True):
        values = g, h, 0.5, alpha, max_delta_step
        exact = [Fraction(float(value)) for value in values]
        weight = float(naive.leaf_weight(*exact))
        assert maths.leaf_weight(*values) == pytest.approx(weight, rel=1e-15)
        gain = float(naive.gain(*exact[:2], exact[2:]))
        assert maths.leaf_gain(*values) == pytest.approx(gain, rel=1e-13)
        assert maths.leaf_gain(*values) >= 0.0


def test_a_leaf_without_hessian_has_weight_and_gain_zero():
    with np.errstate(divide="ignore", invalid="ignore"):  # as in kernels
        for values in ((3, 0, 0, 0, 0), (0, 0, 0, 0, 0), (3, -1, 2, 0, 0)):
            values = [np.float64(value) for value in values]
            assert maths.leaf_weight(*values) == maths.leaf_gain(*values) == 0.0
