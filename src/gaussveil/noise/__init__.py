"""The only room that draws for releases: secure bytes, exact lattice noise, exact coins and selection."""

from gaussveil.noise.bernoulli import bernoulli, poisson_select, randomised_response, response_probabilities
from gaussveil.noise.discrete_gaussian import DiscreteGaussian
from gaussveil.noise.gaussian import GaussianNoise
from gaussveil.noise.generator import Generator, SecureGenerator, SeededGenerator, default_generator
from gaussveil.noise.laplace import discrete_laplace

__all__ = [
    "DiscreteGaussian",
    "GaussianNoise",
    "Generator",
    "SecureGenerator",
    "SeededGenerator",
    "bernoulli",
    "default_generator",
    "discrete_laplace",
    "poisson_select",
    "randomised_response",
    "response_probabilities",
]
