"""What a robot imports: chunk execution, temporal ensembling, the ONNX runtime. No torch."""
