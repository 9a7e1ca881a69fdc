"""Laws of losses that end or lie on atoms, beside Gaussians and steps in one contour."""
