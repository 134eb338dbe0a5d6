"""Confidence: a logistic model of the evidence for a hit."""

import math
from operator import mul

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank import RECOMMENDED_CONFIDENCE, Calibration
from toolrank._confidence import _LIKENESS, _WORDS, Evidence, confidence

features = st.none() | st.floats(-1e6, 1e6)


def judged(model, *values):
    intercept, *coefficients = model
    return 1 / (1 + math.exp(-intercept - sum(map(mul, coefficients, values))))


def test_confidence_by_words_uses_coverage_length_and_name():
    given = Evidence(coverage=0.7, terms=4, name_coverage=0.5)
    assert confidence(given) == pytest.approx(judged(_WORDS, 0.7, math.log(1 + 4), 0.5))


def test_without_coverage_confidence_by_words_uses_the_score():
    assert confidence(Evidence(strength=0.7)) == pytest.approx(judged(_LIKENESS, 0.7))


@pytest.mark.parametrize(
    "calibration", [Calibration(), Calibration(alone=(-1, 9), with_words=(-3, 3, 1, 9))]
)
def test_confidence_by_vectors_uses_contrast_and_the_models_quality(calibration):
    alone, both = Evidence(contrast=0.2), Evidence(coverage=0.7, terms=4, contrast=0.2)

    assert confidence(alone, calibration=calibration) == pytest.approx(
        judged(calibration.alone, 0.2)
    )
    assert confidence(both, calibration=calibration) == pytest.approx(
        judged(calibration.with_words, 0.7, math.log(1 + 4), 0.2)
    )


def test_a_pasted_document_has_no_more_confidence_than_a_long_request():
    assert confidence(Evidence(coverage=0.1, terms=64)) == confidence(
        Evidence(coverage=0.1, terms=20)
    )


@pytest.mark.parametrize("evidence", [Evidence(), Evidence(strength=math.nan)])
def test_without_evidence_there_is_no_confidence(evidence):
    assert confidence(evidence) == 0.0


@pytest.mark.parametrize("evidence", [{}, {"coverage": 0.0, "terms": 9, "contrast": -1.0}])
def test_an_exact_name_is_nearly_certain(evidence):
    assert confidence(Evidence(is_exact=True, **evidence)) == 0.99


@pytest.mark.parametrize(
    ("nothing", "much"),
    [
        ({"strength": 0.0}, {"strength": 1.5}),
        ({"contrast": 0.0}, {"contrast": 0.5}),
        ({"coverage": 0.0, "terms": 3}, {"coverage": 1.0, "terms": 3, "name_coverage": 1.0}),
        (
            {"coverage": 0.0, "terms": 3, "contrast": 0.0},
            {"coverage": 1.0, "terms": 3, "contrast": 0.4},
        ),
    ],
)
def test_one_threshold_separates_weak_from_strong_evidence_in_every_mode(nothing, much):
    low, high = confidence(Evidence(**nothing)), confidence(Evidence(**much))
    assert low < RECOMMENDED_CONFIDENCE / 2
    assert high > (1 + RECOMMENDED_CONFIDENCE) / 2


@given(
    coverage=features,
    terms=st.integers(-1, 10**9),
    name_coverage=st.floats(-1e6, 1e6),
    strength=features,
    contrast=features,
)
def test_confidence_is_between_0_and_1_for_any_evidence(
    coverage, terms, name_coverage, strength, contrast
):
    given = Evidence(
        coverage=coverage,
        terms=terms,
        name_coverage=name_coverage,
        strength=strength,
        contrast=contrast,
    )
    assert 0.0 <= confidence(given) < 1.0
