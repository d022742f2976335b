"""Print the oldest requirements that settings.ini allows, as constraints for pip."""
from configparser import ConfigParser
from pathlib import Path

config = ConfigParser(delimiters=["="])
config.read(Path(__file__).resolve().parent.parent / "settings.ini", encoding="utf-8")
for requirement in config["DEFAULT"]["requirements"].split():
    print(requirement.replace(">=", "=="))
