"""Picture the four known ways of the KUKA LWR 4+ round the pole: python examples/reach_postures.py FILE.png.

Needs the extra `sim` and OpenGL, but no screen.
"""

import sys

from matplotlib.image import imsave

from hpsde.tasks.kinematics import KUKA_LWR
from hpsde.tasks.mujoco_arm import contact_sheet
from hpsde.tasks.reach import KUKA_POSTURES, POLE

goals = [(0.6, 0.0, 0.5)] * len(KUKA_POSTURES)
sheet = contact_sheet(KUKA_LWR, POLE, goals, list(KUKA_POSTURES.values()), width=270, height=300, azimuth=35.0)
imsave(sys.argv[1], sheet)
print(*KUKA_POSTURES, sep="; ")
