"""The examples of docs/ray.md run and print what the page says."""

import os

from own_process import run_in_own_process


def test_the_examples_of_the_page(tmp_path):
    tests = os.path.dirname(os.path.dirname(__file__))
    run_in_own_process(
        f"""
        import os, sys
        os.environ["HOME"] = {str(tmp_path)!r}  # Ray Train's results
        sys.path.append({tests!r})
        import pages
        text = (pages.ROOT / "docs" / "ray.md").read_text()
        found = pages.run(text, "docs/ray.md")
        assert found == text, found
        """
    )
