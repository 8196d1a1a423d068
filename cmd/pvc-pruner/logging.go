package main

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes structured lines to standard error.
func newLogger(level, format string) (logr.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("parse log level: %w", err)
	}
	config := zap.NewProductionConfig()
	if format == "console" {
		config = zap.NewDevelopmentConfig()
		config.Development = false
	}
	config.Level = zap.NewAtomicLevelAt(parsed)
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.DisableStacktrace = true // errors say what failed; a stack of the work queue adds nothing
	config.Sampling = nil           // every decision about a volume is a line
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("build logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}
