import numpy as np

import hpsde


def throw(context, parameters):
    """Minus how far from the target, in metres, a ball at 10 m/s lands."""
    landing = 10.0**2 / 9.81 * np.sin(2.0 * np.radians(parameters[0]))
    return -abs(landing - context[0])


policy = hpsde.learn(throw, contexts=hpsde.Uniform(3.0, 8.0), initial=hpsde.Uniform(0.0, 90.0))
print(policy)
print("angle for a target at 5 m:", policy.act([5.0]))
print("all ways to hit it:", [option.mean([[5.0]]).item() for option in policy.options])
