"""The public contract: what the API is asked and what it answers, written once for server, client and command line.

Only frozen records that know nothing but `model`. A field that is added has a default, so that answers of the version
before can be read. A closed list of words is closed for the server and its OpenAPI document; the client takes a word
that was added since as it is (`edge/client/reader.py`).
"""
