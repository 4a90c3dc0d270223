"""A plan run for real on one machine: its hosts and links as network namespaces and veth pairs, its jobs as
PyTorch processes.

>>> from hocket.testbed.layout import slug
>>> slug("Two jobs, one link")
'two-jobs-one-link'
"""
