"""Runs a plan on one machine: its hosts and links are network namespaces and veth pairs, its jobs PyTorch
processes.

>>> from hocket.testbed.layout import slug
>>> slug("Two jobs, one link")
'two-jobs-one-link'
"""
