"""Spack's recipe: put this folder as packages/py_freetrain into a repository of packages of your site."""

from spack.package import PythonPackage, depends_on, license, variant, version


class PyFreetrain(PythonPackage):
    """Turns the idle node × time holes of a Slurm machine into deep-learning training."""

    # There is no archive to fetch: spack dev-build py-freetrain@0.2.0, in a clone of the project.
    license("Apache-2.0")

    version("0.2.0")

    variant("report", default=True, description="Reports of replays with pictures")
    variant("torch", default=False, description="Elastic trainings on this machine")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@69:", type="build")
    depends_on("py-alembic@1.13:", type=("build", "run"))
    depends_on("py-apscheduler@3.11:3", type=("build", "run"))
    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-clustershell@1.9:", type=("build", "run"))
    depends_on("py-highspy@1.15:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-polars@1.32:", type=("build", "run"))
    depends_on("py-prometheus-client@0.20:", type=("build", "run"))
    depends_on("py-pydantic@2.7:", type=("build", "run"))
    depends_on("py-pyomo@6.10.1:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-sqlalchemy@2.0.30:2", type=("build", "run"))
    depends_on("py-matplotlib@3.8:", type=("build", "run"), when="+report")
    depends_on("py-torch@2.4:", type=("build", "run"), when="+torch")
