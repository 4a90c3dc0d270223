"""From a plan to settings of a real fabric, for the remedies of HotNets'22 that shift nothing: a priority for
each job (§4(ii)), and unfair or adaptively unfair DCQCN (§2, §4(i)).

It prints and writes files, and changes nothing itself.
"""

from hocket.export.classes import Classes, JobClass, job_classes
from hocket.export.nics import Governed, Write, governed_jobs

__all__ = ["Classes", "Governed", "JobClass", "Write", "governed_jobs", "job_classes"]
