# tirstep with its TVM, no GPU needed: docker run --rm -v "$PWD:/work" tirstep check kernels.py
FROM python:3.12-slim
COPY . /tirstep
RUN pip install --no-cache-dir -c /tirstep/constraints.txt /tirstep && rm -r /tirstep
WORKDIR /work
ENTRYPOINT ["tirstep"]
CMD ["--help"]
