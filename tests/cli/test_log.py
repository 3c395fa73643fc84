import logging

from mtf_models.cli.log import log_lines

logger = logging.getLogger("mtf_models")


def test_lines_on_standard_error(capsys):
    with log_lines():
        logger.debug("a detail")
        logger.info("recorded mesh %s", "2×2")
        logging.getLogger("mtf_models.config").warning("odd")
    logger.info("afterwards")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "recorded mesh 2×2\nmtf: warning: odd\n"


def test_a_line_comes_once_whatever_libraries_do_to_the_root_logger(capsys):
    logging.getLogger().addHandler(handler := logging.StreamHandler())
    try:
        with log_lines():
            logger.warning("once")
    finally:
        logging.getLogger().removeHandler(handler)
    assert capsys.readouterr().err.count("once") == 1
    assert logger.propagate
    assert logger.level == logging.NOTSET
